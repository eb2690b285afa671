package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
)

// killedWorkloads are the workloads of a scheduler that were acknowledged, and the ones whose last change was not.
type killedWorkloads struct {
	*killed
	made   int               // uploads begun
	stored map[string]string // SHA-256 by name
	unsure map[string]bool
}

// change uploads a workload, or deletes one if there are several, and reports whether it was acknowledged.
func (k *killedWorkloads) change(ctx context.Context, c pb.WorkloadServiceClient) bool {
	if len(k.stored) > 3 {
		for name := range k.stored {
			delete(k.stored, name)
			k.unsure[name] = true
			if k.fails("delete", second(c.DeleteWorkload(ctx, &pb.DeleteWorkloadRequest{Name: name}))) {
				return false
			}
			delete(k.unsure, name)
			return true
		}
	}
	k.made++
	first := &pb.UploadWorkloadRequest{Parent: "schedulers/auto", WorkloadId: fmt.Sprintf("w%d", k.made)}
	name := first.GetParent() + "/workloads/" + first.GetWorkloadId()
	text := "job_id,submit_time,duration_s,gpus\n"
	for i := range 1 + 997*k.made%3001 {
		text += fmt.Sprintf("%d,2024-01-01T00:00:%02dZ,%d,1\n", i, i%60, k.made)
	}
	k.unsure[name] = true
	got, err := cli.SendWorkload(ctx, &cli.Client{Workloads: c}, first, strings.NewReader(text))
	if k.fails("upload", err) {
		return false
	}
	delete(k.unsure, name)
	k.stored[name] = got.GetWorkload().GetSha256()
	return true
}

// check looks for the acknowledged workloads, each with its jobs.
func (k *killedWorkloads) check(ctx context.Context, c pb.WorkloadServiceClient) {
	list, err := c.ListWorkloads(ctx, &pb.ListWorkloadsRequest{Parent: "schedulers/auto"})
	if err != nil {
		k.t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, w := range list.GetWorkloads() {
		name := w.GetName()
		listed[name] = true
		var text bytes.Buffer
		stream, err := c.DownloadWorkload(ctx, &pb.DownloadWorkloadRequest{Name: name})
		for err == nil {
			var part *pb.DownloadWorkloadResponse
			part, err = stream.Recv()
			text.Write(part.GetData())
		}
		sum := sha256.Sum256(text.Bytes())
		want, known := k.stored[name]
		if got := hex.EncodeToString(sum[:]); !errors.Is(err, io.EOF) || got != w.GetSha256() || known && got != want {
			k.t.Errorf("%s has SHA-256 %s, listed is %s, stored was %s: %v", name, got, w.GetSha256(), want, err)
		}
		if !known && !k.unsure[name] {
			k.t.Errorf("%s was deleted and is there again", name)
		}
		k.stored[name] = w.GetSha256()
	}
	for name := range k.stored {
		if !listed[name] {
			k.t.Errorf("%s was stored and is gone", name)
		}
	}
	clear(k.unsure)
}

// TestWorkloadKills kills a service with SIGKILL while workloads are uploaded and deleted: acknowledged changes are
// there after it, and none is half done.
func TestWorkloadKills(t *testing.T) {
	t.Parallel()
	lives := 12
	if testing.Short() {
		lives = 3
	}
	k := &killedWorkloads{killed: &killed{t: t, dir: t.TempDir(), of: map[string]*killedScheduler{},
		counts: map[string]int{}}, stored: map[string]string{}, unsure: map[string]bool{}}
	for i := range lives {
		conn, kill := k.start()
		c := pb.NewWorkloadServiceClient(conn)
		if i == 0 {
			k.register(t.Context(), pb.NewTuningServiceClient(conn), pb.NewConfigurationServiceClient(conn))
		}
		k.check(t.Context(), c)
		for range 1 + rand.IntN(6) {
			if !k.change(t.Context(), c) {
				t.Error("a change failed before the kill")
			}
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for k.change(t.Context(), c) {
			}
		}()
		time.Sleep(time.Duration(rand.IntN(30_000)) * time.Microsecond)
		kill()
		<-done
		_ = conn.Close()
	}
	if k.counts["upload"] < lives || k.counts["delete"] == 0 && lives > 3 {
		t.Errorf("%v", k.counts)
	}
}
