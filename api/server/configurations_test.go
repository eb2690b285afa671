package server

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// keep adopts nothing.
func keep(_ context.Context, in round.Input) (round.Decision, error) {
	return round.Decision{Config: in.Incumbent, Ratio: 1}, nil
}

// byRound adopts another number of queues in every round.
func byRound(_ context.Context, in round.Input) (round.Decision, error) {
	n := 1 + in.Round%6
	c, _ := in.Space.Project(space.Values{"queues": space.Int(n)})
	return round.Decision{Config: c, Adopt: true, Reason: "test", Ratio: 1.2}, nil
}

// watch opens a watch and returns a function that receives its next event.
func (f *fixture) watch(ctx context.Context, r *pb.WatchConfigurationsRequest) func() *pb.WatchConfigurationsResponse {
	f.t.Helper()
	stream, err := f.config.WatchConfigurations(ctx, r)
	if err != nil {
		f.t.Fatal(err)
	}
	return func() *pb.WatchConfigurationsResponse {
		f.t.Helper()
		got, err := stream.Recv()
		if err != nil {
			f.t.Fatal(err)
		}
		return got
	}
}

func (f *fixture) acknowledge(name string, state pb.Acknowledgement_State) *pb.AcknowledgeConfigurationResponse {
	f.t.Helper()
	got, err := f.config.AcknowledgeConfiguration(background(f.t),
		&pb.AcknowledgeConfigurationRequest{Name: name, Acknowledgement: &pb.Acknowledgement{State: state}})
	if err != nil {
		f.t.Fatal(err)
	}
	return got
}

func TestPollWatchAcknowledge(t *testing.T) {
	defer goleak.VerifyNone(t)
	f := serve(t, byRound)
	defer f.stop()
	f.create("s", pb.SchedulerSpec_AUTO)
	ctx, cancel := context.WithCancel(background(t))
	defer cancel()

	first, err := f.config.GetCurrentConfiguration(ctx, &pb.GetCurrentConfigurationRequest{Name: "schedulers/s"})
	if err != nil || first.GetConfiguration().GetRevision() != 1 || first.GetPollAfter().AsDuration() < 30*time.Second {
		t.Fatal(first, err)
	}
	if p := first.GetConfiguration().GetParameters(); p["queues"].GetNumberValue() != 3 ||
		len(p["thresholds"].GetListValue().GetValues()) != 2 || p["limit"] != nil ||
		p["order"].GetStringValue() != "submit" {
		t.Errorf("parameters %v", p)
	}
	same, err := f.config.GetCurrentConfiguration(ctx,
		&pb.GetCurrentConfigurationRequest{Name: "schedulers/s", IfNoneMatch: first.GetConfiguration().GetEtag()})
	if err != nil || !same.GetNotModified() || same.GetConfiguration() != nil {
		t.Error(same, err)
	}
	_, err = f.config.AcknowledgeConfiguration(ctx,
		&pb.AcknowledgeConfigurationRequest{Name: "schedulers/s/configurations/1", Acknowledgement: &pb.Acknowledgement{
			State: pb.Acknowledgement_APPLIED, EffectiveParameters: first.GetConfiguration().GetParameters(), // as sent
		}})
	if err != nil {
		t.Fatal(err)
	}

	next := f.watch(ctx, &pb.WatchConfigurationsRequest{Parent: "schedulers/s",
		SendInitialEvents: true, HeartbeatInterval: durationpb.New(time.Second)})
	if got := next(); got.GetConfiguration().GetRevision() != 1 {
		t.Fatal(got)
	}
	if got := next(); got.GetBookmark() == nil {
		t.Fatal(got)
	}
	if got := next(); got.GetHeartbeat() == nil {
		t.Fatal(got)
	}
	f.ingest("s", submitted("1", 0))
	f.ingest("s", submitted("2", time.Hour+time.Second))
	pushed := next()
	for pushed.GetHeartbeat() != nil {
		pushed = next()
	}
	c := pushed.GetConfiguration()
	if c.GetRevision() != 2 || c.GetState() != pb.Configuration_PUBLISHED || c.GetOrigin() != pb.Configuration_TUNED ||
		c.GetParameters()["queues"].GetNumberValue() != 2 || c.GetEvidence().GetRound() != 1 {
		t.Fatal(pushed)
	}
	token := pushed.GetResumeToken()

	// Refused: its values are parked, and the last good ones follow.
	refused := f.acknowledge(c.GetName(), pb.Acknowledgement_REJECTED)
	if refused.GetConfiguration().GetState() != pb.Configuration_REJECTED ||
		refused.GetCurrentConfiguration() != "schedulers/s/configurations/3" {
		t.Errorf("after the refusal: %v", refused)
	}
	for pushed = next(); pushed.GetHeartbeat() != nil; {
		pushed = next()
	}
	if pushed.GetConfiguration().GetName() != refused.GetCurrentConfiguration() {
		t.Fatal(pushed)
	}
	f.acknowledge(refused.GetCurrentConfiguration(), pb.Acknowledgement_APPLIED)
	_, err = f.config.AcknowledgeConfiguration(ctx, &pb.AcknowledgeConfigurationRequest{
		Name: refused.GetCurrentConfiguration(), ContentHash: c.GetContentHash(), // the hash of other values
		Acknowledgement: &pb.Acknowledgement{State: pb.Acknowledgement_APPLIED}})
	wantCode(t, err, codes.InvalidArgument)
	f.ingest("s", submitted("3", 2*time.Hour+time.Second)) // three queues run
	f.ingest("s", submitted("4", 3*time.Hour+time.Second)) // four
	pushed = next()
	for pushed.GetHeartbeat() != nil {
		pushed = next()
	}
	if pushed.GetConfiguration().GetRevision() != 4 ||
		pushed.GetConfiguration().GetParameters()["queues"].GetNumberValue() != 4 {
		t.Fatal(pushed)
	}

	// Resuming after the refused revision gives later events only.
	resumed := f.watch(ctx, &pb.WatchConfigurationsRequest{Parent: "schedulers/s", ResumeToken: token})
	if got := resumed(); got.GetConfiguration().GetRevision() != 4 {
		t.Error(got)
	}
	if got := resumed(); got.GetBookmark() == nil {
		t.Error(got)
	}
	later := f.watch(ctx, &pb.WatchConfigurationsRequest{Parent: "schedulers/s"})
	if got := later(); got.GetBookmark() == nil {
		t.Error("without initial events", got)
	}
	list, err := f.config.ListConfigurations(ctx, &pb.ListConfigurationsRequest{Parent: "schedulers/s", PageSize: 2})
	if err != nil || len(list.GetConfigurations()) != 2 || list.GetConfigurations()[0].GetRevision() != 4 {
		t.Fatal(list, err)
	}
	list, err = f.config.ListConfigurations(ctx,
		&pb.ListConfigurationsRequest{Parent: "schedulers/s", PageSize: 2, PageToken: list.GetNextPageToken()})
	if err != nil || len(list.GetConfigurations()) != 2 || list.GetNextPageToken() != "" {
		t.Error(list, err)
	}
	cancel()
}

func TestSlowWatcherGetsTheNewest(t *testing.T) {
	defer goleak.VerifyNone(t)
	var round19, rounds atomic.Int64 // decisions
	f := serve(t, func(ctx context.Context, in round.Input) (round.Decision, error) {
		rounds.Add(1)
		if in.Round == 19 {
			round19.Add(1)
		}
		return byRound(ctx, in)
	})
	defer f.stop()
	f.create("s", pb.SchedulerSpec_AUTO)
	ctx := background(t)
	const watchers = 50
	var next [watchers]func() *pb.WatchConfigurationsResponse
	for i := range next {
		next[i] = f.watch(ctx, &pb.WatchConfigurationsRequest{Parent: "schedulers/s"})
		next[i]() // the bookmark: it watches
	}
	for hour := range 20 {
		f.ingest("s", submitted(string(rune('a'+hour)), time.Duration(hour)*time.Hour+time.Second))
	}
	var last int64
	// Rounds that are due together become one, and may decide on the configuration in force.
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		s, err := f.tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: "schedulers/s"})
		if err != nil {
			t.Fatal(err)
		}
		if round19.Load() > 0 && s.GetStatus().GetRoundCount() == rounds.Load() {
			_, revision, _ := strings.Cut(s.GetCurrentConfiguration(), "/configurations/")
			if last, err = strconv.ParseInt(revision, 10, 64); err != nil {
				t.Fatal(err)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the last round did not come")
		}
	}
	for i := range next {
		for before := int64(0); before < last; {
			got := next[i]().GetConfiguration().GetRevision()
			if got <= before {
				t.Fatalf("watcher %d: revision %d after %d", i, got, before)
			}
			before = got
		}
	}
}

func TestShutdownEndsStreams(t *testing.T) {
	defer goleak.VerifyNone(t)
	f := serve(t, nil)
	f.create("s", pb.SchedulerSpec_AUTO)
	ctx := background(t)
	watch, err := f.config.WatchConfigurations(ctx, &pb.WatchConfigurationsRequest{Parent: "schedulers/s"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	ingest, err := f.tuning.IngestEvents(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := ingest.Send(&pb.IngestEventsRequest{Parent: "schedulers/s"}); err != nil {
		t.Fatal(err)
	}
	if _, err := ingest.Recv(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	f.stop()
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("shutting down took %v", took)
	}
	_, err = watch.Recv()
	wantCode(t, err, codes.Unavailable)
	_, err = ingest.Recv()
	wantCode(t, err, codes.Unavailable)
}

func TestBadRequestsOfConfigurations(t *testing.T) {
	f := serve(t, nil)
	f.create("s", pb.SchedulerSpec_AUTO)
	ctx := background(t)
	_, err := f.config.GetCurrentConfiguration(ctx, &pb.GetCurrentConfigurationRequest{Name: "schedulers/nobody"})
	wantCode(t, err, codes.NotFound)
	_, err = f.config.GetConfiguration(ctx, &pb.GetConfigurationRequest{Name: "schedulers/s/configurations/9"})
	wantCode(t, err, codes.NotFound)
	_, err = f.config.GetConfiguration(ctx, &pb.GetConfigurationRequest{Name: "schedulers/s/configurations/-1"})
	wantCode(t, err, codes.InvalidArgument)
	for _, c := range []struct {
		ack  *pb.Acknowledgement
		want string
	}{
		{nil, "acknowledgement"},
		{&pb.Acknowledgement{}, "acknowledgement.state"},
		{&pb.Acknowledgement{State: pb.Acknowledgement_PARTIALLY_APPLIED}, "acknowledgement.effective_parameters"},
		{&pb.Acknowledgement{State: pb.Acknowledgement_PARTIALLY_APPLIED,
			EffectiveParameters: map[string]*structpb.Value{"nope": structpb.NewNumberValue(1)}},
			`acknowledgement.effective_parameters["nope"]`},
		{&pb.Acknowledgement{State: pb.Acknowledgement_PARTIALLY_APPLIED,
			EffectiveParameters: map[string]*structpb.Value{"queues": structpb.NewStringValue("1")}},
			`acknowledgement.effective_parameters["queues"]`},
		{&pb.Acknowledgement{State: pb.Acknowledgement_APPLIED,
			EffectiveParameters: map[string]*structpb.Value{"queues": structpb.NewNumberValue(1)}},
			`acknowledgement.effective_parameters["queues"]`},
		{&pb.Acknowledgement{State: pb.Acknowledgement_FAILED,
			EffectiveParameters: map[string]*structpb.Value{"queues": structpb.NewNumberValue(3)}},
			"acknowledgement.effective_parameters"},
	} {
		_, err := f.config.AcknowledgeConfiguration(ctx,
			&pb.AcknowledgeConfigurationRequest{Name: "schedulers/s/configurations/1", Acknowledgement: c.ack})
		if got := fields(t, err); len(got) != 1 || got[0] != c.want {
			t.Errorf("fields %v, want %s", got, c.want)
		}
	}
	got, err := f.config.AcknowledgeConfiguration(ctx,
		&pb.AcknowledgeConfigurationRequest{Name: "schedulers/s/configurations/1", Acknowledgement: &pb.Acknowledgement{
			State: pb.Acknowledgement_PARTIALLY_APPLIED, InstanceId: "i-1", Error: "no such queue",
			EffectiveParameters: map[string]*structpb.Value{"queues": structpb.NewNumberValue(77)},
		}})
	if err != nil || got.GetConfiguration().GetState() != pb.Configuration_ROLLED_OUT ||
		got.GetConfiguration().GetAcknowledgement().GetEffectiveParameters()["queues"].GetNumberValue() != 77 {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []*pb.WatchConfigurationsRequest{
		{Parent: "s"}, {Parent: "schedulers/s", ResumeToken: "x"},
		{Parent: "schedulers/s", HeartbeatInterval: durationpb.New(time.Millisecond)},
		{Parent: "schedulers/s", ResumeToken: rpc.Token{Of: "someone else", Revision: 3}.String()},
	} {
		stream, err := f.config.WatchConfigurations(ctx, bad)
		if err == nil {
			_, err = stream.Recv()
		}
		wantCode(t, err, codes.InvalidArgument)
	}
}

// The kinds of events are numbered alike in proto and workload.
func TestEventNumbersAgree(t *testing.T) {
	for kind, want := range map[pb.Event_Kind]workload.EventKind{
		pb.Event_SUBMITTED: workload.Submitted, pb.Event_STARTED: workload.Started,
		pb.Event_PREEMPTED: workload.Preempted, pb.Event_RESUMED: workload.Resumed,
		pb.Event_RESIZED: workload.Resized, pb.Event_FINISHED: workload.Finished, pb.Event_NODE_UP: workload.NodeUp,
		pb.Event_NODE_DOWN:      workload.NodeDown,
		pb.Event_NODE_DRAINED:   workload.NodeDrained,
		pb.Event_CONFIG_APPLIED: workload.ConfigApplied,
		pb.Event_SNAPSHOT:       workload.TakenSnapshot,
		pb.Event_HEARTBEAT:      workload.Heartbeat,
	} {
		e := submitted("1", 0)
		e.Kind, e.Node, e.ConfigurationRevision = kind, &pb.NodeDetails{NodeId: "n", Gpus: 8}, 3
		if kind == pb.Event_SNAPSHOT {
			e.Snapshot = &pb.Snapshot{}
		}
		if got, f := converted(e); got.Kind != want || f != nil {
			t.Errorf("%v became %v: %v", kind, got.Kind, f)
		}
	}
}

// TestEndStatuses: every way to end of the API is one of package workload, by name.
func TestEndStatuses(t *testing.T) {
	for n, name := range pb.JobDetails_EndStatus_name {
		e := submitted("1", 0)
		e.Kind, e.Job.EndStatus = pb.Event_FINISHED, pb.JobDetails_EndStatus(n)
		got, f := convert.EventFromProto(e)
		if n == 0 {
			name = ""
		}
		if err := got.Validate(); f != nil || err != nil || strings.ToUpper(got.Job.Status.String()) != name {
			t.Errorf("%s became %q: %v, %v", name, got.Job.Status, f, err)
		}
	}
}

// TestRequestsAreConverted: the request of a job reaches the ledger, and an invalid one is refused by name.
func TestRequestsAreConverted(t *testing.T) {
	e := submitted("1", 0)
	e.Job.MilliGpus = 8000
	e.HoldUntilTime = timestamppb.New(time.Unix(7, 0))
	e.Job.Request = &pb.JobRequest{GpuModel: "A100", Partition: "train", MilliCpus: 1, MemoryBytes: 2,
		TimeLimit: durationpb.New(3 * time.Minute), NodeCount: 4, Nice: -5, Priority: 6, Qos: "high", Account: "lab",
		Requeue: pb.JobRequest_RESTART, HoldOff: durationpb.New(time.Minute)}
	got, f := convert.EventFromProto(e)
	want := workload.Request{GPUModel: "A100", Partition: "train", MilliCPUs: 1, Memory: 2, TimeLimit: 3 * time.Minute,
		NodeCount: 4, Nice: -5, Priority: 6, QOS: "high", Account: "lab", Requeue: workload.RequeueRestarts,
		HoldOff: time.Minute}
	if err := got.Validate(); f != nil || err != nil || got.Job.Request() != want || got.HoldUntil != 7*time.Second {
		t.Errorf("%+v until %v: %v, %v", got.Job.Request(), got.HoldUntil, f, err)
	}
	for field, spoil := range map[string]func(*pb.JobRequest){
		"job.request.node_count": func(q *pb.JobRequest) { q.NodeCount = 3 },
		"job.request.time_limit": func(q *pb.JobRequest) { q.TimeLimit = durationpb.New(-time.Second) },
		"job.request.priority":   func(q *pb.JobRequest) { q.Priority = 1<<40 + 1 },
		"job.request.requeue":    func(q *pb.JobRequest) { q.Requeue = 9 },
		"job.request.qos":        func(q *pb.JobRequest) { q.Qos = strings.Repeat("q", 200) },
		"job.request.milli_cpus": func(q *pb.JobRequest) { q.MilliCpus = -1 },
		"job.request.hold_off":   func(q *pb.JobRequest) { q.HoldOff = durationpb.New(20 * 365 * 24 * time.Hour) },
	} {
		bad := proto.Clone(e).(*pb.Event)
		spoil(bad.Job.Request)
		got, f := convert.EventFromProto(bad)
		text := fmt.Sprint(got.Validate())
		if f != nil {
			text = f.Field + ": " + f.Why
		}
		if !strings.HasPrefix(text, field+": ") {
			t.Errorf("%s: %s", field, text)
		}
	}
}

// After a restore the tokens, acknowledgements and etags of the former epoch are refused, and so is
// a token ahead of the store: none of them is silently taken for one of this store.
func TestFormerEpochIsRefused(t *testing.T) {
	dir := t.TempDir()
	options := Options{Builtins: []controller.Builtin{testBuiltin}}
	f := serveWith(t, dir, controller.Options{Decide: keep}, options)
	uid := f.create("s", pb.SchedulerSpec_AUTO).GetUid()
	before := f.watch(background(t), &pb.WatchConfigurationsRequest{Parent: "schedulers/s", SendInitialEvents: true})()
	f.stop()
	restored, err := store.Open(dir, store.Options{NewEpoch: true})
	if err == nil {
		err = restored.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	f = serveWith(t, dir, controller.Options{Decide: keep}, options)
	epoch := f.server.service.Epoch()
	for name, text := range map[string]string{
		"of the former epoch": before.GetResumeToken(),
		"without an epoch":    rpc.Token{Of: uid, Revision: 1}.String(),
		"ahead of the store":  rpc.Token{Of: uid, Revision: 1000, Epoch: epoch}.String(),
	} {
		stream, err := f.config.WatchConfigurations(background(t), &pb.WatchConfigurationsRequest{
			Parent: "schedulers/s", ResumeToken: text})
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.OutOfRange || reasonOf(err) != "RESYNC" {
			t.Errorf("token %s: %v", name, err)
		}
	}
	again := f.watch(background(t), &pb.WatchConfigurationsRequest{Parent: "schedulers/s", SendInitialEvents: true})()
	if e := again.GetConfiguration().GetEpoch(); e.GetCounter() <= before.GetConfiguration().GetEpoch().GetCounter() {
		t.Errorf("epoch %v after %v", e, before.GetConfiguration().GetEpoch())
	}
	polled, err := f.config.GetCurrentConfiguration(background(t), &pb.GetCurrentConfigurationRequest{
		Name: "schedulers/s", IfNoneMatch: before.GetConfiguration().GetEtag()})
	if err != nil || polled.GetNotModified() {
		t.Errorf("poll with an etag of the former epoch: %v, %v", polled, err)
	}
	acknowledge := func(e *pb.Epoch) error {
		_, err := f.config.AcknowledgeConfiguration(background(t), &pb.AcknowledgeConfigurationRequest{
			Name: again.GetConfiguration().GetName(), Epoch: e,
			Acknowledgement: &pb.Acknowledgement{State: pb.Acknowledgement_APPLIED}})
		return err
	}
	for _, e := range []*pb.Epoch{before.GetConfiguration().GetEpoch(), {Id: "x", Counter: epoch.Counter + 1}} {
		if err := acknowledge(e); status.Code(err) != codes.FailedPrecondition || reasonOf(err) != "EPOCH_MISMATCH" {
			t.Errorf("acknowledgement of epoch %v: %v", e, err)
		}
	}
	event := func(id string, e *pb.Epoch) *pb.Event {
		return &pb.Event{EventId: id, Kind: pb.Event_CONFIG_APPLIED, ConfigurationRevision: 1, InstanceId: "i",
			Epoch: e, SchedulerTime: timestamppb.New(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC))}
	}
	late := f.ingest("s", event("late", before.GetConfiguration().GetEpoch()))
	if r := late.GetRejectedEvents(); len(r) != 1 || r[0].GetField() != "events[0].epoch" {
		t.Errorf("an event of the former epoch: %v", late)
	}
	applied := f.ingest("s", event("now", again.GetConfiguration().GetEpoch()))
	got, err := f.tuning.GetScheduler(background(t), &pb.GetSchedulerRequest{Name: "schedulers/s"})
	if i := got.GetStatus().GetInstances(); err != nil || applied.GetAcceptedCount() != 1 || len(i) != 1 ||
		i[0].GetInstanceId() != "i" || i[0].GetReportedRevision() != 1 {
		t.Errorf("an event of the present epoch: %v, %v, %v", applied, i, err)
	}
	if err := acknowledge(again.GetConfiguration().GetEpoch()); err != nil {
		t.Error(err)
	}
}

// reasonOf returns the reason in the details of an error.
func reasonOf(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

// A watch says whether tuning is paused before its bookmark, and then when that changes.
func TestWatchPause(t *testing.T) {
	f := serve(t, nil)
	if _, err := f.tuning.CreateScheduler(t.Context(), request("s", pb.SchedulerSpec_AUTO)); err != nil {
		t.Fatal(err)
	}
	pause := func() {
		t.Helper()
		must[*pb.Scheduler](t)(f.tuning.PauseTuning(t.Context(), &pb.PauseTuningRequest{Name: "schedulers/s"}))
	}
	resume := func() {
		t.Helper()
		must[*pb.Scheduler](t)(f.tuning.ResumeTuning(t.Context(), &pb.ResumeTuningRequest{Name: "schedulers/s"}))
	}
	early := f.watch(t.Context(), &pb.WatchConfigurationsRequest{Parent: "schedulers/s"})
	if got := early(); got.GetBookmark() == nil {
		t.Fatal(got)
	}
	pause()
	reported := early()
	if reported.GetPaused().GetActor() == "" || reported.GetPaused().GetCreateTime() == nil {
		t.Fatal(reported)
	}
	for _, req := range []*pb.WatchConfigurationsRequest{
		{Parent: "schedulers/s"}, {Parent: "schedulers/s", ResumeToken: reported.GetResumeToken()}} {
		late := f.watch(t.Context(), req)
		if got := late(); got.GetPaused() == nil {
			t.Error(got)
		}
		if got := late(); got.GetBookmark() == nil {
			t.Error(got)
		}
	}
	resume()
	resumed := early()
	if resumed.GetResumed() == nil {
		t.Error(resumed)
	}
	again := f.watch(t.Context(), &pb.WatchConfigurationsRequest{Parent: "schedulers/s",
		ResumeToken: reported.GetResumeToken()})
	if got := again(); got.GetBookmark() == nil {
		t.Error(got)
	}
}
