package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
)

// jobEvent is an event of a job, minutes after a beginning.
func jobEvent(kind pb.Event_Kind, job string, minute int, edit ...func(*pb.Event)) *pb.Event {
	e := submitted("", time.Duration(minute)*time.Minute)
	e.EventId, e.Kind, e.Job.JobId = fmt.Sprint(kind, minute, job[:min(9, len(job))]), kind, job
	for _, f := range edit {
		f(e)
	}
	return e
}

func on(node string, gpus int32) func(*pb.Event) {
	return func(e *pb.Event) { e.Placement = append(e.Placement, &pb.NodePlacement{NodeId: node, Gpus: gpus}) }
}

func by(tenant, user string, gpus int64) func(*pb.Event) {
	return func(e *pb.Event) { e.Job.Tenant, e.Job.User, e.Job.MilliGpus = tenant, user, 1000*gpus }
}

// hostile are ids that schedulers give and that paths, filters and pages must bear.
var hostile = []string{"ns/name", "..", "a b", "%41", "~41", "<script>", `"quoted"`, "é", "x:explain", "a\x00b",
	"{job}", strings.Repeat("x", convert.MaxText)}

// jobsFixture has a job in every state, and one of each hostile id.
func jobsFixture(t *testing.T) (*fixture, pb.JobServiceClient) {
	f := serve(t, nil)
	f.create("prod", pb.SchedulerSpec_RECOMMEND)
	f.create("other", pb.SchedulerSpec_RECOMMEND)
	events := []*pb.Event{
		jobEvent(pb.Event_SUBMITTED, "ended", 0, by("a", "u", 8)),
		jobEvent(pb.Event_STARTED, "ended", 10, on("n1", 4), on("n2", 4)),
		jobEvent(pb.Event_PREEMPTED, "ended", 20),
		jobEvent(pb.Event_RESUMED, "ended", 30, on("n3", 8)),
		jobEvent(pb.Event_FINISHED, "ended", 50, func(e *pb.Event) { e.Job.EndStatus = pb.JobDetails_FAILED }),
		jobEvent(pb.Event_SUBMITTED, "runs", 5, by("a", "v", 2)),
		jobEvent(pb.Event_STARTED, "runs", 6, on("n1", 2)),
		jobEvent(pb.Event_SUBMITTED, "waits", 55, by("b", "u", 80)),
	}
	for i, id := range hostile {
		events = append(events, jobEvent(pb.Event_SUBMITTED, id, 60+i/2, by(id, "w", 1)))
	}
	if got := f.ingest("prod", events...); got.GetAcceptedCount() != int32(len(events)) {
		t.Fatal(got)
	}
	return f, pb.NewJobServiceClient(f.conn)
}

type listing = *pb.ListJobsRequest

// listJobs returns the ids of all pages.
func listJobs(t *testing.T, c pb.JobServiceClient, edit func(listing)) (ids []string) {
	t.Helper()
	req := &pb.ListJobsRequest{Parent: "schedulers/prod", PageSize: 3}
	edit(req)
	for {
		got, err := c.ListJobs(t.Context(), req)
		if err != nil || len(got.GetJobs()) > int(req.GetPageSize()) {
			t.Fatal(got, err)
		}
		for _, j := range got.GetJobs() {
			ids = append(ids, j.GetDetails().GetJobId())
			if len(j.GetSpells()) > 0 {
				t.Errorf("%s has spells in a list", j.GetName())
			}
		}
		if req.PageToken = got.GetNextPageToken(); req.PageToken == "" {
			return ids
		}
	}
}

// TestGetJob: a job is what its events say.
func TestGetJob(t *testing.T) {
	_, c := jobsFixture(t)
	minute := func(n int) *timestamppb.Timestamp {
		return submitted("", time.Duration(n)*time.Minute).GetSchedulerTime()
	}
	j, err := c.GetJob(t.Context(), &pb.GetJobRequest{Name: "schedulers/prod/jobs/ended"})
	if err != nil {
		t.Fatal(err)
	}
	if j.GetState() != pb.Job_ENDED || j.GetDetails().GetEndStatus() != pb.JobDetails_FAILED ||
		!j.GetSubmitTime().AsTime().Equal(minute(0).AsTime()) ||
		!j.GetStartTime().AsTime().Equal(minute(10).AsTime()) ||
		!j.GetEndTime().AsTime().Equal(minute(50).AsTime()) || j.GetWaitDuration().AsDuration() != 20*time.Minute ||
		j.GetRunDuration().AsDuration() != 30*time.Minute || j.GetPreemptionCount() != 1 || j.GetStartCount() != 2 ||
		j.GetAttainedService().AsDuration() != 4*time.Hour || j.GetHeldGpus() != 0 ||
		j.GetPlacement()[0].GetNodeId() != "n3" || j.GetDetails().GetTenant() != "a" {
		t.Error(j)
	}
	if s := j.GetSpells(); len(s) != 2 || !s[0].GetEndTime().AsTime().Equal(minute(20).AsTime()) ||
		len(s[0].GetPlacement()) != 2 || s[1].GetGpus() != 8 || s[1].GetEndTime() == nil {
		t.Error(s)
	}
	j, err = c.GetJob(t.Context(), &pb.GetJobRequest{Name: "schedulers/prod/jobs/runs"})
	if err != nil || j.GetState() != pb.Job_RUNNING || j.GetHeldGpus() != 2 || j.GetEndTime() != nil ||
		len(j.GetSpells()) != 1 || j.GetSpells()[0].GetEndTime() != nil {
		t.Error(j, err)
	}
	j, err = c.GetJob(t.Context(), &pb.GetJobRequest{Name: "schedulers/prod/jobs/waits"})
	if err != nil || j.GetState() != pb.Job_WAITING || j.GetStartTime() != nil || len(j.GetSpells()) != 0 {
		t.Error(j, err)
	}
	for name, code := range map[string]codes.Code{"schedulers/prod/jobs/none": codes.NotFound,
		"schedulers/other/jobs/runs": codes.NotFound, "schedulers/none/jobs/runs": codes.NotFound,
		"schedulers/prod/jobs/a b": codes.InvalidArgument, "schedulers/prod/jobs/": codes.InvalidArgument,
		"schedulers/prod/jobs/~6e": codes.InvalidArgument, "schedulers/prod/jobs/~FF": codes.InvalidArgument} {
		refuses(t, code, "", func() error {
			_, err := c.GetJob(t.Context(), &pb.GetJobRequest{Name: name})
			return err
		})
	}
}

// TestMissingJob: a job that a snapshot lacks is neither active nor ended.
func TestMissingJob(t *testing.T) {
	f, c := jobsFixture(t)
	snapshot := submitted("taken", 3*time.Hour)
	snapshot.Kind, snapshot.Job, snapshot.Snapshot = pb.Event_SNAPSHOT, nil, &pb.Snapshot{}
	f.ingest("prod", snapshot)
	// While a round is decided, the snapshot waits.
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		j, err := c.GetJob(t.Context(), &pb.GetJobRequest{Name: "schedulers/prod/jobs/runs"})
		if err != nil || time.Now().After(deadline) {
			t.Fatal(j, err)
		}
		if j.GetState() == pb.Job_RUNNING {
			continue
		}
		if j.GetState() != pb.Job_MISSING || j.GetHeldGpus() != 0 ||
			!j.GetEndTime().AsTime().Equal(j.GetStartTime().AsTime()) {
			t.Error(j)
		}
		return
	}
}

// TestHostileJobs: every id is found by its name, in a path, too, and listed once.
func TestHostileJobs(t *testing.T) {
	f, c := jobsFixture(t)
	web := f.server.Web()
	all := listJobs(t, c, func(listing) {})
	for _, id := range hostile {
		name := convert.JobName("prod", id)
		j, err := c.GetJob(t.Context(), &pb.GetJobRequest{Name: name})
		if err != nil || j.GetDetails().GetJobId() != id || j.GetName() != name {
			t.Errorf("%q: %v %v", id, j, err)
		}
		w := httptest.NewRecorder()
		if web.ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1/v1/"+name, nil)); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		n := 0
		for _, got := range all {
			if got == id {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%q is listed %d times", id, n)
		}
		if got := listJobs(t, c, func(r listing) { r.Tenant = id }); !slices.Equal(got, []string{id}) {
			t.Errorf("of tenant %q: %q", id, got)
		}
	}
}

// TestListJobs: windows, fields, filters and orders choose jobs, whatever the pages.
func TestListJobs(t *testing.T) {
	_, c := jobsFixture(t)
	at := func(minute int) *timestamppb.Timestamp {
		return submitted("", time.Duration(minute)*time.Minute).GetSchedulerTime()
	}
	for name, x := range map[string]struct {
		edit func(listing)
		want []string
	}{
		"in a window":       {func(r listing) { r.StartTime, r.EndTime = at(51), at(56) }, []string{"waits", "runs"}},
		"until an instant":  {func(r listing) { r.EndTime = at(5) }, []string{"runs", "ended"}},
		"of a user":         {func(r listing) { r.User = "u" }, []string{"waits", "ended"}},
		"on a node":         {func(r listing) { r.NodeId = "n1" }, []string{"runs", "ended"}},
		"on a node, later":  {func(r listing) { r.NodeId, r.StartTime = "n1", at(25) }, []string{"runs"}},
		"that ended":        {func(r listing) { r.Filter = "state = ENDED" }, []string{"ended"}},
		"by a nested field": {func(r listing) { r.Filter = "details.milli_gpus >= 8000" }, []string{"waits", "ended"}},
		"as of then": {func(r listing) { r.EndTime, r.Filter = at(45), "held_gpus > 0" }, []string{
			"runs", "ended"}},
		"in another order": {func(r listing) { r.Tenant, r.OrderBy = "a", "run_duration" }, []string{"ended", "runs"}},
		"and the other way": {func(r listing) { r.Tenant, r.OrderBy = "a", "run_duration desc" }, []string{
			"runs", "ended"}},
		"of another cluster": {func(r listing) { r.Parent = "schedulers/other" }, nil},
	} {
		if got := listJobs(t, c, x.edit); !slices.Equal(got, x.want) {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
	for field, edit := range map[string]func(listing){
		"page_size":  func(r listing) { r.PageSize = -1 },
		"page_token": func(r listing) { r.PageToken = "x" },
		"end_time":   func(r listing) { r.StartTime, r.EndTime = at(2), at(1) },
		"start_time": func(r listing) { r.StartTime = &timestamppb.Timestamp{Seconds: 1 << 40} },
		"filter":     func(r listing) { r.Filter = "spells:*" },
		"order_by":   func(r listing) { r.OrderBy = "placement" },
		"parent":     func(r listing) { r.Parent = "prod" },
	} {
		refuses(t, codes.InvalidArgument, field, func() error {
			req := &pb.ListJobsRequest{Parent: "schedulers/prod"}
			edit(req)
			_, err := c.ListJobs(t.Context(), req)
			return err
		})
	}
	first, err := c.ListJobs(t.Context(), &pb.ListJobsRequest{Parent: "schedulers/prod", PageSize: 1})
	if err != nil || first.GetNextPageToken() == "" {
		t.Fatal(first, err)
	}
	refuses(t, codes.InvalidArgument, "page_token", func() error {
		_, err := c.ListJobs(t.Context(), &pb.ListJobsRequest{Parent: "schedulers/other", PageSize: 1,
			PageToken: first.GetNextPageToken()})
		return err
	})
}
