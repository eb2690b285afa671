package server

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
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
	backfill := space.Param{ID: "backfill", Kind: space.KindBool, Default: space.Bool(false)}
	keep := func(_ context.Context, in round.Input) (round.Decision, error) {
		return round.Decision{Config: in.Incumbent, Reason: "as it is"}, nil
	}
	f := serveWith(t, t.TempDir(), controller.Options{Decide: keep}, Options{Builtins: []controller.Builtin{
		{Name: "fifo", Params: []space.Param{backfill}}}})
	for _, id := range []string{"prod", "other"} {
		r := request(id, pb.SchedulerSpec_RECOMMEND)
		r.Scheduler.Spec.SchedulerType = "fifo"
		if _, err := f.tuning.CreateScheduler(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
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

// TestTimeline: cells are what jobs held and waited for, bounded by the request; marks are what took effect.
func TestTimeline(t *testing.T) {
	_, c := jobsFixture(t)
	at := func(minute int) *timestamppb.Timestamp {
		return submitted("", time.Duration(minute)*time.Minute).GetSchedulerTime()
	}
	get := func(edit func(*pb.GetTimelineRequest)) (*pb.Timeline, error) {
		req := &pb.GetTimelineRequest{Name: "schedulers/prod", StartTime: at(0), EndTime: at(60), BucketCount: 6}
		edit(req)
		return c.GetTimeline(t.Context(), req)
	}
	got, err := get(func(*pb.GetTimelineRequest) {})
	if err != nil || len(got.GetRows()) != 2 || got.GetJobCount() != 3 || got.GetPlacedShare() != 1 {
		t.Fatal(got, err)
	}
	b, a := got.GetRows()[1], got.GetRows()[0]
	if a.GetFirst() != "a" || !slices.Equal(a.GetBusyGpus(), []float64{.8, 10, 2, 10, 10, 2}) ||
		!slices.Equal(a.GetRunningJobs(), []int32{1, 2, 1, 2, 2, 1}) || a.GetWaitingGpus()[0] != 8.2 ||
		!slices.Equal(a.GetWaitingJobs(), []int32{2, 0, 1, 0, 0, 0}) {
		t.Error(a)
	}
	if b.GetFirst() != "b" || b.GetWaitingGpus()[5] != 40 || b.GetBusyGpus()[5] != 0 {
		t.Error(b)
	}
	if got, err = get(func(r *pb.GetTimelineRequest) {
		r.Rows, r.BucketCount = pb.GetTimelineRequest_NODES, 2
	}); err != nil || len(got.GetRows()) != 3 || got.GetRows()[2].GetFirst() != "n3" ||
		got.GetRows()[2].GetBusyGpus()[1] != 5.333 {
		t.Error(got, err)
	}
	if got, err = get(func(r *pb.GetTimelineRequest) {
		r.Rows, r.FirstNodeId, r.LastNodeId, r.RowCount = pb.GetTimelineRequest_NODES, "n1", "n2", 1
	}); err != nil || len(got.GetRows()) != 1 || got.GetRows()[0].GetLast() != "n2" {
		t.Error(got, err)
	}
	for field, edit := range map[string]func(*pb.GetTimelineRequest){
		"bucket_count": func(r *pb.GetTimelineRequest) { r.BucketCount = 1001 },
		"row_count":    func(r *pb.GetTimelineRequest) { r.RowCount, r.BucketCount = 500, 1000 },
		"rows":         func(r *pb.GetTimelineRequest) { r.Rows = 9 },
		"end_time":     func(r *pb.GetTimelineRequest) { r.EndTime = r.StartTime },
		"name":         func(r *pb.GetTimelineRequest) { r.Name = "prod" },
	} {
		refuses(t, codes.InvalidArgument, field, func() error { _, err := get(edit); return err })
	}
	refuses(t, codes.FailedPrecondition, "", func() error { // no events
		_, err := get(func(r *pb.GetTimelineRequest) { r.Name = "schedulers/other" })
		return err
	})
}

// TestLoad: the load is that of the latest events, and the freshness that of the records.
func TestLoad(t *testing.T) {
	f, c := jobsFixture(t)
	got, err := c.GetLoad(t.Context(), &pb.GetLoadRequest{Name: "schedulers/prod/load"})
	if err != nil || got.GetTotalGpus() != 80 || got.GetBusyGpus() != 2 || got.GetRunningJobs() != 1 ||
		got.GetWaitingGpus() != 80+int32(len(hostile)) || got.GetReceiveTime() == nil || got.GetClockSkew() == nil ||
		got.GetSampleTime() != nil || got.GetNodeCount() != 10 {
		t.Error(got, err)
	}
	sample := gpuSample("n1", 0)
	if _, err := pb.NewTelemetryServiceClient(f.conn).IngestTelemetry(t.Context(), &pb.IngestTelemetryRequest{
		Parent: "schedulers/prod", Samples: []*pb.GpuSample{sample}}); err != nil {
		t.Fatal(err)
	}
	got, err = c.GetLoad(t.Context(), &pb.GetLoadRequest{Name: "schedulers/prod/load"})
	if err != nil || !got.GetSampleTime().AsTime().Equal(sample.GetSampleTime().AsTime()) {
		t.Error(got, err)
	}
	got, err = c.GetLoad(t.Context(), &pb.GetLoadRequest{Name: "schedulers/other/load"})
	if err != nil || got.GetSchedulerTime() != nil || got.GetReceiveTime() != nil || got.GetTotalGpus() != 80 {
		t.Error(got, err)
	}
	refuses(t, codes.InvalidArgument, "name", func() error {
		_, err := c.GetLoad(t.Context(), &pb.GetLoadRequest{Name: "schedulers/prod"})
		return err
	})
}

// TestTenants: what each tenant got in a time, by pages, filters and orders.
func TestTenants(t *testing.T) {
	f, c := jobsFixture(t)
	var all []*pb.Tenant
	req := &pb.ListTenantsRequest{Parent: "schedulers/prod", PageSize: 4}
	for {
		got, err := c.ListTenants(t.Context(), req)
		if err != nil || len(got.GetTenants()) > 4 {
			t.Fatal(got, err)
		}
		all = append(all, got.GetTenants()...)
		if req.PageToken = got.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	a := all[0]
	if len(all) != 2+len(hostile) || a.GetTenant() != "a" || a.GetJobCount() != 2 || a.GetStartedCount() != 2 ||
		a.GetEndedCount() != 1 || a.GetPreemptionCount() != 1 || a.GetShare() != 1 ||
		a.GetMeanWaitDuration().AsDuration() != 330*time.Second ||
		a.GetP95WaitDuration().AsDuration() != 10*time.Minute || a.GetRestartedCount() != 1 ||
		a.GetMeanRestartWaitDuration().AsDuration() != 10*time.Minute || a.GetBusyGpus() != 2 ||
		a.GetWaitingGpus() != 0 {
		t.Error(a, len(all))
	}
	got, err := c.ListTenants(t.Context(), &pb.ListTenantsRequest{Parent: "schedulers/prod",
		Filter: "waiting_gpu_hours > 0.1", OrderBy: "waiting_gpu_hours desc"})
	if err != nil || len(got.GetTenants()) != 2 || got.GetTenants()[0].GetTenant() != "b" ||
		got.GetTenants()[0].GetWaitingGpus() != 80 || got.GetTenants()[0].GetMeanRestartWaitDuration() != nil {
		t.Error(got, err)
	}
	// A page goes on where the one before ends, though another tenant has the most GPU-hours meanwhile.
	first, err := c.ListTenants(t.Context(), &pb.ListTenantsRequest{Parent: "schedulers/prod", PageSize: 1})
	if err != nil || first.GetTenants()[0].GetTenant() != "a" {
		t.Fatal(first, err)
	}
	f.ingest("prod", jobEvent(pb.Event_STARTED, "waits", 66, by("b", "u", 80)),
		jobEvent(pb.Event_FINISHED, "waits", 73, by("b", "u", 80)))
	for fresh := first; fresh.GetTenants()[0].GetTenant() != "b"; { // a round may be decided meanwhile
		if fresh, err = c.ListTenants(t.Context(), &pb.ListTenantsRequest{Parent: "schedulers/prod",
			StartTime: submitted("", 0).GetSchedulerTime()}); err != nil {
			t.Fatal(err)
		}
	}
	second, err := c.ListTenants(t.Context(), &pb.ListTenantsRequest{Parent: "schedulers/prod", PageSize: 1000,
		PageToken: first.GetNextPageToken()})
	if err != nil || !slices.ContainsFunc(second.GetTenants(), func(t *pb.Tenant) bool {
		return t.GetTenant() == "b" && t.GetEndedCount() == 0
	}) {
		t.Error(second, err)
	}
	if first, err = c.ListTenants(t.Context(), &pb.ListTenantsRequest{Parent: "schedulers/prod"}); err != nil ||
		first.GetTenants()[0].GetTenant() != "b" || first.GetTenants()[0].GetEndedCount() != 1 {
		t.Error(first, err)
	}
	if got, err = c.ListTenants(t.Context(), &pb.ListTenantsRequest{Parent: "schedulers/other"}); err != nil ||
		len(got.GetTenants()) != 0 {
		t.Error(got, err)
	}
}

// TestPredictedRun: once there are futures, jobs that wait and run have a predicted run time in lists and alone, no
// less than they ran.
func TestPredictedRun(t *testing.T) {
	_, c := jobsFixture(t)
	if _, err := c.ForecastLoad(t.Context(), &pb.ForecastLoadRequest{Name: "schedulers/prod/load"}); err != nil {
		t.Fatal(err)
	}
	all, err := c.ListJobs(t.Context(), &pb.ListJobsRequest{Parent: "schedulers/prod", PageSize: 100})
	if err != nil {
		t.Fatal(err)
	}
	predicted := 0
	for _, j := range all.GetJobs() {
		r := j.GetPredictedRun()
		if active := j.GetState() == pb.Job_WAITING || j.GetState() == pb.Job_RUNNING; active != (r != nil) {
			t.Errorf("%s %v: predicted %v", j.GetName(), j.GetState(), r)
		}
		if r == nil {
			continue
		}
		predicted++
		low, middle, high := r.GetLowDuration().AsDuration(), r.GetMiddleDuration().AsDuration(),
			r.GetHighDuration().AsDuration()
		if low < j.GetRunDuration().AsDuration() || middle < low || high < middle || high == 0 ||
			r.GetSource() != pb.Job_Prediction_HISTORY || r.GetSchedulerTime() == nil {
			t.Errorf("%s ran %v: %v", j.GetName(), j.GetRunDuration(), r)
		}
		alone, err := c.GetJob(t.Context(), &pb.GetJobRequest{Name: j.GetName()})
		if err != nil || !proto.Equal(alone.GetPredictedRun(), r) {
			t.Errorf("%s: %v in a list, %v alone: %v", j.GetName(), r, alone.GetPredictedRun(), err)
		}
	}
	if predicted != 2+len(hostile) {
		t.Errorf("%d jobs of %d are predicted", predicted, len(all.GetJobs()))
	}
	refuses(t, codes.InvalidArgument, "filter", func() error {
		_, err := c.ListJobs(t.Context(), &pb.ListJobsRequest{Parent: "schedulers/prod",
			Filter: "predicted_run.middle_duration > 1h"})
		return err
	})
}

// TestExplainJob: a job waited for the reasons that events show; what is not simulated says so.
func TestExplainJob(t *testing.T) {
	_, c := jobsFixture(t)
	explain := func(job string) *pb.ExplainJobResponse {
		t.Helper()
		got, err := c.ExplainJob(t.Context(), &pb.ExplainJobRequest{Name: convert.JobName("prod", job)})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := explain("waits"); got.GetWaits()[0].GetCause() != pb.ExplainJobResponse_BUSY ||
		got.GetWaits()[0].GetShare() != 1 || got.GetInstantCount() == 0 || got.GetFutures() == 0 ||
		got.GetStart() == nil || got.GetEnd() == nil {
		t.Error(got)
	}
	if got := explain("runs"); got.GetStart() != nil || got.GetEnd().GetFutures() == 0 ||
		got.GetEnd().GetLowTime().AsTime().Before(got.GetSchedulerTime().AsTime()) ||
		got.GetEnd().GetHighTime().AsTime().After(got.GetHorizonTime().AsTime()) {
		t.Error(got)
	}
	load, err := c.ForecastLoad(t.Context(), &pb.ForecastLoadRequest{Name: "schedulers/prod/load"})
	if err != nil || len(load.GetPoints()) != 25 || load.GetFutures() == 0 {
		t.Fatal(load, err)
	}
	if first := load.GetPoints()[0]; first.GetBusyGpus().GetLow() > first.GetBusyGpus().GetMiddle() ||
		first.GetBusyGpus().GetMiddle() > first.GetBusyGpus().GetHigh() || first.GetWaitingJobs().GetHigh() == 0 {
		t.Error(first)
	}
	load, err = c.ForecastLoad(t.Context(), &pb.ForecastLoadRequest{Name: "schedulers/other/load"})
	if err != nil || len(load.GetPoints()) != 0 || load.GetNoFuturesReason() == "" {
		t.Error(load, err)
	}
	for id, reason := range map[string]string{"prod": "the registered defaults run",
		"other": "there are no events yet"} {
		gain, err := c.GetTuningGain(t.Context(), &pb.GetTuningGainRequest{Name: "schedulers/" + id})
		if err != nil || gain.GetNoGainReason() != reason || gain.GetSavedHours() != nil {
			t.Error(id, gain, err)
		}
	}
	if got := explain("ended"); got.GetWaits()[0].GetCause() != pb.ExplainJobResponse_UNKNOWN ||
		got.GetPassedCount() != 1 || got.GetStart() != nil || got.GetUsage() != nil {
		t.Error(got)
	}
	refuses(t, codes.NotFound, "", func() error {
		_, err := c.ExplainJob(t.Context(), &pb.ExplainJobRequest{Name: "schedulers/prod/jobs/none"})
		return err
	})
}

// A scheduler of an hour has no forecast to grade, and a service without a power model accounts for no energy: both say
// why.
func TestNoQuality(t *testing.T) {
	_, c := jobsFixture(t)
	q, err := c.GetForecastQuality(t.Context(), &pb.GetForecastQualityRequest{Name: "schedulers/prod"})
	if err != nil || q.GetNoGradeReason() == "" || len(q.GetHours()) > 0 {
		t.Error(q, err)
	}
	e, err := c.GetEnergy(t.Context(), &pb.GetEnergyRequest{Name: "schedulers/prod"})
	if err != nil || !strings.HasSuffix(e.GetUnknownReason(), "--energy-file FILE'") || e.GetCluster() != nil {
		t.Error(e, err)
	}
	refuses(t, codes.InvalidArgument, "job_count", func() error {
		_, err := c.GetEnergy(t.Context(), &pb.GetEnergyRequest{Name: "schedulers/prod", JobCount: 1001})
		return err
	})
	refuses(t, codes.FailedPrecondition, "", func() error {
		_, err := c.GetForecastQuality(t.Context(), &pb.GetForecastQualityRequest{Name: "schedulers/prod",
			StartTime: timestamppb.New(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))})
		return err
	})
}
