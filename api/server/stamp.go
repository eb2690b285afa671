package server

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/service/workloads"
	"github.com/autosched/autosched/study"
)

// stamp makes the etags of resources, which hold for one epoch of the store.
type stamp struct{ controller.Epoch }

// etag identifies a revision: the values behind a poll change only with it.
func (e stamp) etag(c *rollout.Configuration) string {
	return fmt.Sprintf("%x-%d-%.16s", e.Counter, c.Revision, c.Hash)
}

// configuration is a revision as the API shows it.
func (e stamp) configuration(c *rollout.Configuration) *pb.Configuration {
	out := configurationToProto(c)
	out.Epoch, out.Etag = e.proto(), e.etag(c)
	return out
}

// configured is the answer of a call that changes a revision.
func (e stamp) configured(c *rollout.Configuration, err error) (*pb.Configuration, error) {
	if err != nil {
		return nil, err
	}
	return e.configuration(c), nil
}

func (e stamp) proto() *pb.Epoch { return &pb.Epoch{Id: e.ID, Counter: e.Counter} }

// same refuses a configuration that has another etag than a request.
func (e stamp) same(etag string) controller.Check {
	return func(c *rollout.Configuration) error { return matches(etag, e.etag(c)) }
}

// schedulerEtag identifies what operators set of a scheduler.
func (e stamp) schedulerEtag(c *controller.Scheduler) string {
	return fmt.Sprintf("%x-%.8s-%d", e.Counter, c.UID, c.Generation)
}

// studyEtag identifies what operators set of a study.
func (e stamp) studyEtag(r *study.Record) string {
	run, _ := json.Marshal(r.Run) // plain values
	sum := sha256.Sum256(append(run, r.Phase...))
	return fmt.Sprintf("%x-%.8s-%x", e.Counter, r.UID, sum[:4])
}

// sameStudy refuses a study that has another etag than a request.
func (e stamp) sameStudy(etag string) func(*study.Record) error {
	return func(r *study.Record) error { return matches(etag, e.studyEtag(r)) }
}

func (e stamp) workloadEtag(r *workloads.Record) string {
	return fmt.Sprintf("%x-%.8s", e.Counter, r.UID)
}
