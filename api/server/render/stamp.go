package render

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/service/workloads"
	"github.com/autosched/autosched/study"
)

// Stamp makes the etags of resources, which hold for one epoch of the store.
type Stamp struct{ controller.Epoch }

// Etag identifies a revision: the values behind a poll change only with it.
func (e Stamp) Etag(c *rollout.Configuration) string {
	return fmt.Sprintf("%x-%d-%.16s", e.Counter, c.Revision, c.Hash)
}

// Configuration is a revision as the API shows it.
func (e Stamp) Configuration(c *rollout.Configuration) *pb.Configuration {
	out := ConfigurationToProto(c)
	out.Epoch, out.Etag = e.EpochToProto(), e.Etag(c)
	return out
}

// Configured is the answer of a call that changes a revision.
func (e Stamp) Configured(c *rollout.Configuration, err error) (*pb.Configuration, error) {
	if err != nil {
		return nil, err
	}
	return e.Configuration(c), nil
}

// EpochToProto writes the epoch of the store.
func (e Stamp) EpochToProto() *pb.Epoch { return &pb.Epoch{Id: e.ID, Counter: e.Counter} }

// Same refuses a configuration that has another etag than a request.
func (e Stamp) Same(etag string) controller.Check {
	return func(c *rollout.Configuration) error { return rpc.Match(etag, e.Etag(c)) }
}

// SchedulerEtag identifies the settings of a scheduler.
func (e Stamp) SchedulerEtag(c *controller.Scheduler) string {
	return fmt.Sprintf("%x-%.8s-%d", e.Counter, c.UID, c.Generation)
}

// StudyEtag identifies the settings of a study.
func (e Stamp) studyEtag(r *study.Record) string {
	run, _ := json.Marshal(r.Run) // plain values
	sum := sha256.Sum256(append(run, r.Phase...))
	return fmt.Sprintf("%x-%.8s-%x", e.Counter, r.UID, sum[:4])
}

// SameStudy refuses a study that has another etag than a request.
func (e Stamp) SameStudy(etag string) func(*study.Record) error {
	return func(r *study.Record) error { return rpc.Match(etag, e.studyEtag(r)) }
}

// WorkloadEtag returns the etag of a workload.
func (e Stamp) WorkloadEtag(r *workloads.Record) string {
	return fmt.Sprintf("%x-%.8s", e.Counter, r.UID)
}
