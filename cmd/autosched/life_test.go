package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/simulator/live"
	"github.com/autosched/autosched/workload"
)

// life is a service with TLS and roles as a process, and a scheduler of two instances that
// uses it: FIFO on a node of 8 GPUs.
type life struct {
	t       *testing.T
	dir     string
	serve   *exec.Cmd
	address string

	cluster live.Cluster
	at      time.Duration // how far the cluster is
	events  []*pb.Event   // that happened since the last were sent
	sent    int64         // batches
}

const lifeID = "prod"

var lifeZero = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// lifeTurns is the instant from which on FIFO does worse with backfill than without.
const lifeTurns = 4*time.Hour + 10*time.Minute

// lifeJobs are the jobs of the cluster. First a long job of one GPU holds up a wide one that needs
// all GPUs, and many small ones behind that, which need not wait with backfill. From lifeTurns on long
// jobs overlap, and with backfill the wide ones, as many as before, never start.
func lifeJobs() []workload.Job {
	var jobs []workload.Job
	add := func(key string, at, duration time.Duration, gpus int) {
		jobs = append(jobs, workload.Job{ID: fmt.Sprintf("%s-%d", key, len(jobs)), Key: key, User: key, Tenant: "team",
			Submit: at, Duration: duration, GPUs: workload.GPUs(gpus)})
	}
	for m := range int((lifeTurns + 4*time.Hour) / time.Minute) {
		at := time.Duration(m) * time.Minute
		long, wide := m%60 == 0, m%60 == 1 || m%60 >= 40
		small := m%60 >= 2 && m%60 < 32
		if at >= lifeTurns {
			long, wide, small = m%30 == 10, m%2 == 0, false
		}
		switch {
		case long:
			add("long", at, 35*time.Minute, 1)
		case wide:
			add("wide", at, 30*time.Second, 8)
		case small:
			add("small", at, 3*time.Minute, 1)
		}
	}
	return jobs
}

func newLife(t *testing.T) *life {
	t.Helper()
	l := &life{t: t, dir: t.TempDir()}
	l.cluster.Send = func(e workload.Event) {
		m := &pb.Event{EventId: e.ID, Kind: pb.Event_Kind(e.Kind), SchedulerTime: timestamppb.New(lifeZero.Add(e.Time)),
			Job: &pb.JobDetails{JobId: e.Job.ID, User: e.Job.User, Tenant: e.Job.Tenant, Key: e.Job.Key,
				MilliGpus: int64(e.Job.GPUs)}}
		if e.Kind == workload.Finished {
			m.Job.EndStatus = pb.JobDetails_COMPLETED
		}
		for _, n := range e.Placement {
			m.Placement = append(m.Placement, &pb.NodePlacement{NodeId: n.Node, Gpus: int32(n.GPUs)})
		}
		l.events = append(l.events, m)
	}
	w, err := workload.New("life", lifeZero, lifeJobs())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.cluster.Sim.Start(workload.Uniform(1, 8), w, l.policy("backfill=false"),
		simulator.Options{Observer: l.cluster.Observe}); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *life) policy(set string) simulator.Policy {
	l.t.Helper()
	s, err := schedulers.Find("fifo")
	if err != nil {
		l.t.Fatal(err)
	}
	c, err := s.Space.Parse(s.Space.Default(), []string{set})
	if err != nil {
		l.t.Fatal(err)
	}
	return s.New(c)
}

func (l *life) pki(name string) string { return filepath.Join(l.dir, "pki", name) }

// start serves a directory as a process. Findings bring no rounds forward: the test counts the rounds of every hour.
func (l *life) start(dir string) {
	l.t.Helper()
	l.serve, l.address = clitest.ServeProcess(l.t, filepath.Join(l.dir, dir), "127.0.0.1:0", "--tls-cert", l.pki("server.pem"),
		"--tls-key", l.pki("server.key"), "--client-ca", l.pki("ca.pem"), "--roles", l.pki("roles.yaml"),
		"--findings-rounds", "0")
}

// stop ends the service in good order.
func (l *life) stop() {
	l.t.Helper()
	if err := l.serve.Process.Signal(syscall.SIGTERM); err != nil {
		l.t.Fatal(err)
	}
	if err := l.serve.Wait(); err != nil {
		l.t.Fatalf("serve: %v", err)
	}
}

// client is a command line with the certificate of a caller.
func (l *life) client(caller string, args ...string) []string {
	return append(args, "--server", l.address, "--tls-ca", l.pki("ca.pem"), "--tls-cert", l.pki(caller+".pem"),
		"--tls-key", l.pki(caller+".key"))
}

// as runs a command with the certificate of a caller, and wants its output to match.
func (l *life) as(caller, want string, args ...string) string {
	l.t.Helper()
	code, out, errs := clitest.Run(l.client(caller, args...)...)
	if code != 0 || !regexp.MustCompile(want).MatchString(out) {
		l.t.Fatalf("%s: autosched %s: exit %d, %s%s\nwant %s", caller, strings.Join(args, " "), code, errs, out, want)
	}
	return out
}

// status is a viewer's view of the scheduler.
func (l *life) status() *pb.Scheduler {
	l.t.Helper()
	s, raw := &pb.Scheduler{}, map[string]any{}
	if err := json.Unmarshal([]byte(l.as("viewer", "", "scheduler", "get", lifeID, "--json")), &raw); err != nil {
		l.t.Fatal(err)
	}
	delete(raw, "schema")
	text, err := json.Marshal(raw)
	if err == nil {
		err = protojson.Unmarshal(text, s)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

// until waits for the status to be the needed one.
func (l *life) until(what string, ok func(*pb.Scheduler) bool) {
	l.t.Helper()
	var s *pb.Scheduler
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if s = l.status(); ok(s) {
			return
		}
	}
	l.t.Fatalf("no %s:\n%s", what, protojson.Format(s))
}

// dial connects as the scheduler.
func (l *life) dial() (pb.TuningServiceClient, pb.ConfigurationServiceClient) {
	l.t.Helper()
	f := cli.ConnectFlags{Server: l.address, CA: l.pki("ca.pem"), Cert: l.pki("scheduler-" + lifeID + ".pem"),
		Key: l.pki("scheduler-" + lifeID + ".key")}
	conn, err := f.Dial()
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = conn.Close() })
	return pb.NewTuningServiceClient(conn), pb.NewConfigurationServiceClient(conn)
}

// run lets the cluster run until an instant and sends its events as one batch.
func (l *life) run(at time.Duration) {
	l.t.Helper()
	if err := l.cluster.Sim.RunUntil(l.t.Context(), at); err != nil {
		l.t.Fatal(err)
	}
	l.at = at
	l.events = append(l.events, &pb.Event{EventId: fmt.Sprintf("at-%v", at), Kind: pb.Event_HEARTBEAT,
		SchedulerTime: timestamppb.New(lifeZero.Add(at))})
	tuning, _ := l.dial()
	ctx, cancel := context.WithTimeout(l.t.Context(), 2*time.Minute)
	defer cancel()
	stream, err := tuning.IngestEvents(ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	l.sent++
	err = stream.Send(&pb.IngestEventsRequest{Parent: "schedulers/" + lifeID, Sequence: l.sent, Events: l.events})
	got, recvErr := stream.Recv()
	if err = errors.Join(err, recvErr); err != nil || len(got.GetRejectedEvents()) > 0 ||
		int(got.GetAcceptedCount()) != len(l.events) {
		l.t.Fatalf("%d events until %v: %v, %v", len(l.events), at, got, err)
	}
	l.events = nil
}

// replica is an instance of the scheduler, which watches its configuration.
type replica struct {
	l       *life
	id      string
	config  pb.ConfigurationServiceClient
	offers  chan *pb.WatchConfigurationsResponse
	stopped chan error
	token   string // of the last response
	runs    *pb.Configuration
}

// replica begins to watch, from a token if that is not empty.
func (l *life) replica(id, token string) *replica {
	l.t.Helper()
	_, config := l.dial()
	r := &replica{l: l, id: id, config: config, token: token, offers: make(chan *pb.WatchConfigurationsResponse, 100),
		stopped: make(chan error, 1)}
	watch, err := config.WatchConfigurations(l.t.Context(), &pb.WatchConfigurationsRequest{InstanceId: id,
		Parent: "schedulers/" + lifeID, SendInitialEvents: token == "", ResumeToken: token})
	if err != nil {
		l.t.Fatal(err)
	}
	go func() {
		for {
			m, err := watch.Recv()
			if err != nil {
				r.stopped <- err
				return
			}
			r.offers <- m
		}
	}()
	return r
}

// offered waits for a revision and checks that a poll of the instance agrees.
func (r *replica) offered(revision int64) *pb.Configuration {
	r.l.t.Helper()
	timeout := time.After(2 * time.Minute)
	for {
		select {
		case m := <-r.offers:
			r.token = m.GetResumeToken()
			c := m.GetConfiguration()
			if c.GetRevision() < revision {
				continue
			}
			poll, err := r.config.GetCurrentConfiguration(r.l.t.Context(),
				&pb.GetCurrentConfigurationRequest{Name: "schedulers/" + lifeID, InstanceId: r.id})
			if err != nil || c.GetRevision() != revision || poll.GetConfiguration().GetEtag() != c.GetEtag() {
				r.l.t.Fatalf("%s is offered %v, and polls %v, %v; want revision %d", r.id, c, poll, err, revision)
			}
			return c
		case err := <-r.stopped:
			r.l.t.Fatalf("the watch of %s ended: %v", r.id, err)
		case <-timeout:
			r.l.t.Fatalf("%s is not offered revision %d:\n%s", r.id, revision, protojson.Format(r.l.status()))
		}
	}
}

// keeps checks that an instance is offered nothing, and polls its revision.
func (r *replica) keeps(revision int64) {
	r.l.t.Helper()
	poll, err := r.config.GetCurrentConfiguration(r.l.t.Context(),
		&pb.GetCurrentConfigurationRequest{Name: "schedulers/" + lifeID, InstanceId: r.id})
	if err != nil || poll.GetConfiguration().GetRevision() != revision || r.runs.GetRevision() != revision {
		r.l.t.Fatalf("%s polls %v, %v; want revision %d", r.id, poll, err, revision)
	}
	for len(r.offers) > 0 {
		if c := (<-r.offers).GetConfiguration(); c.GetRevision() > revision {
			r.l.t.Fatalf("%s is offered %v before its wave", r.id, c)
		}
	}
}

// answer acknowledges a configuration.
func (r *replica) answer(c *pb.Configuration, state pb.Acknowledgement_State, why string) error {
	_, err := r.config.AcknowledgeConfiguration(r.l.t.Context(), &pb.AcknowledgeConfigurationRequest{
		Name: c.GetName(), ContentHash: c.GetContentHash(), Epoch: c.GetEpoch(),
		Acknowledgement: &pb.Acknowledgement{State: state, Error: why, InstanceId: r.id,
			AppliedTime: timestamppb.New(lifeZero.Add(r.l.at))}})
	return err
}

// apply waits for a revision, applies it and acknowledges it.
func (r *replica) apply(revision int64) {
	r.l.t.Helper()
	c := r.offered(revision)
	r.runs = c
	r.l.cluster.Sim.Reconfigure(r.l.policy(fmt.Sprintf("backfill=%v",
		c.GetParameters()["backfill"].GetBoolValue())))
	if err := r.answer(c, pb.Acknowledgement_APPLIED, ""); err != nil {
		r.l.t.Fatal(err)
	}
}

// TestLife is the life of a scheduler with two instances, through the public API: it registers, a
// round proposes, an operator approves, a canary applies it, and the other instance once that has run
// it for a while; it does worse, the service says so, and an operator goes back; then to it again, an instance
// refuses it, and its values are unparked. All of it is in the audit log; the round is decided again bit
// for bit; and a backup is served under a new epoch, which the instances notice.
func TestLife(t *testing.T) {
	l := newLife(t)
	if code, _, errs := clitest.Run("admin", "certs", l.pki(""), "--id", lifeID); code != 0 {
		t.Fatal(errs)
	}
	l.start("data")
	l.as("scheduler-"+lifeID, "fifo, recommend", "scheduler", "register", "--id", lifeID, "--builtin", "fifo",
		"--nodes", "1", "--gpus-per-node", "8", "--mode", "recommend")
	l.as("operator", "", "scheduler", "update", lifeID, "--budget", "12", "--horizon", "4h", "--canary",
		"--soak-time", "5m")
	a, b := l.replica("a", ""), l.replica("b", "")
	a.apply(1)
	b.apply(1)

	// Rounds find backfill, and propose it once they have seen enough.
	proposed := func() bool {
		return regexp.MustCompile(`\n2 +PROPOSED +TUNED`).MatchString(l.as("viewer", "", "scheduler", "config", "list", lifeID))
	}
	for n := int64(1); !proposed(); n++ {
		if n > 4 {
			t.Fatal(l.as("viewer", "", "scheduler", "rounds", "list", lifeID))
		}
		l.run(time.Duration(n)*time.Hour + 2*time.Minute)
		l.until("round", func(s *pb.Scheduler) bool { return s.GetStatus().GetRoundCount() == n })
	}
	l.as("viewer", `\nproposed +revision 2 waits for 'autosched scheduler config approve prod', or 'reject' or 'park'\n`,
		"scheduler", "get", lifeID)

	// An operator sets it aside: it waits for no decision, and another approves it later.
	park := []string{"scheduler", "config", "park", lifeID, "--reason", "after the release"}
	if code, _, errs := clitest.Run(l.client("viewer", park...)...); code == 0 || !strings.Contains(errs, "viewer") {
		t.Errorf("a viewer parks: exit %d, %s", code, errs)
	}
	l.as("operator", "revision 2 can be parked", append(park, "--validate-only")...)
	l.as("operator", "revision 2 is parked", park...)
	l.as("viewer", `\n2 +operator .* decided +after the release\n`, "scheduler", "config", "parked", lifeID)
	l.as("viewer", `\n2 +PARKED +TUNED`, "scheduler", "config", "list", lifeID, "--filter", "state = PARKED")
	l.as("viewer", `\nparked +by operator at [^\n]*: after the release\n`, "scheduler", "config", "get", lifeID,
		"--revision", "2")
	if out := l.as("viewer", "", "scheduler", "get", lifeID); strings.Contains(out, "\nproposed ") {
		t.Errorf("a parked proposal waits:\n%s", out)
	}
	l.as("operator", "revision 2 waits for", "scheduler", "config", "unpark", lifeID, "--revision", "2")
	l.as("operator", `"state": *"PARKED"(?s).*"parked": *true`, append(park, "--json")...)
	l.as("operator", "run revision 2: backfill=true", "scheduler", "config", "approve", lifeID, "--revision", "2",
		"--reason", "fewer jobs wait")
	l.as("viewer", `(?s)\napproved +by operator at [^\n]*: fewer jobs wait\n.*\nround +\d+ \('autosched scheduler rounds show prod \d+'\)`,
		"scheduler", "config", "get", lifeID, "--revision", "2")
	l.as("operator", "", "scheduler", "pause", lifeID, "--reason", "new nodes")
	l.as("viewer", `\npaused +by operator at [^\n]*: new nodes\n`, "scheduler", "get", lifeID)
	l.as("operator", "", "scheduler", "resume", lifeID)
	l.as("viewer", "offered to 1 of 2 instances; the next wave begins after instance \"a\" applied it",
		"scheduler", "get", lifeID)
	a.apply(2)
	round := cli.ShortName(a.runs.GetEvidence().GetRoundName())
	b.keeps(1)
	l.run(l.at + 2*time.Minute)
	l.as("viewer", `a runs revision 2 \(IN_SYNC\)\n.*b runs revision 1 \(IN_SYNC\)`, "scheduler", "get", lifeID)
	b.keeps(1)
	l.run(l.at + 3*time.Minute)
	l.as("viewer", `b runs revision 1, should run revision 2 \(PENDING\)`, "scheduler", "get", lifeID)
	b.apply(2)

	// Later jobs do worse with it: the service raises an alarm, and an operator goes back.
	l.as("operator", "auto", "scheduler", "update", lifeID, "--mode", "auto", "--interval", "24h")
	incident := func(s *pb.Scheduler) bool { return s.GetStatus().GetLastIncident() != nil }
	for at := lifeTurns + 10*time.Minute; !incident(l.status()); at += 30 * time.Minute {
		if at > lifeTurns+4*time.Hour {
			t.Fatal(l.as("viewer", "", "scheduler", "get", lifeID))
		}
		before := l.status().GetStatus().GetWatching()
		l.run(at)
		l.until("look", func(s *pb.Scheduler) bool { return incident(s) || s.GetStatus().GetWatching() != before })
	}
	l.as("viewer", `\n2 +ROLLED_OUT +TUNED .*backfill=true\n`, "scheduler", "config", "list", lifeID)
	l.as("viewer", `\nincident +revision 2 did worse than promised \(judge, [^\n]*\) than revision 1 would have: `,
		"scheduler", "get", lifeID)
	l.as("operator", "run revision 3: backfill=false", "scheduler", "config", "rollback", lifeID, "--park",
		"--reason", "jobs wait")
	a.apply(3)
	b.apply(3)
	l.as("viewer", `\n2 +operator .*jobs wait`, "scheduler", "config", "parked", lifeID)

	// An operator wants it nevertheless; an instance refuses, and neither runs it.
	l.as("operator", "revision 2 are unparked", "scheduler", "config", "unpark", lifeID, "--revision", "2")
	l.as("operator", "run revision 4: backfill=true", "scheduler", "config", "rollback", lifeID, "--revision", "2",
		"--reason", "try again")
	l.as("viewer", `\nbecause +an operator went back .*: try again\n`, "scheduler", "config", "get", lifeID)
	a.apply(4)
	if err := b.answer(b.offered(4), pb.Acknowledgement_REJECTED, "no room"); err != nil {
		t.Fatal(err)
	}
	a.apply(5)
	b.apply(5)
	l.as("viewer", `scheduler \(b\) .*no room`, "scheduler", "config", "parked", lifeID)
	l.as("operator", "revision 4 are unparked", "scheduler", "config", "unpark", lifeID, "--revision", "4")
	if out := l.as("viewer", "", "scheduler", "config", "parked", lifeID); strings.Contains(out,
		"no room") {
		t.Errorf("parked still:\n%s", out)
	}

	// All of it is in the audit log, and the round is decided again from a backup.
	list := l.as("operator", "", "admin", "audit", "list", lifeID, "--limit", "100")
	for _, want := range []string{"scheduler-prod +CreateScheduler", "operator +ParkConfiguration .*after the release", "operator +ApproveConfiguration .*fewer jobs wait",
		"tuning +Rollout", "judge +Alarm", "operator +RollbackConfiguration .*try again", "operator +UnparkConfiguration"} {
		if !regexp.MustCompile(want).MatchString(list) {
			t.Errorf("no %s in\n%s", want, list)
		}
	}
	file, archive := filepath.Join(l.dir, "audit.jsonl"), filepath.Join(l.dir, "b.tar.zst")
	l.as("operator", "", "admin", "audit", "export", "-o", file)
	l.as("admin", "verified", "admin", "backup", "--out", archive)
	l.stop()
	restored := filepath.Join(l.dir, "restored")
	for _, c := range []struct {
		want string
		args []string
	}{
		{"records, unbroken", []string{"admin", "audit", "verify", file}},
		{"", []string{"admin", "restore", "--backup", archive, "--dir", restored}},
		{"records, unbroken", []string{"admin", "audit", "verify", "--dir", restored}},
		{"is the same again", []string{"admin", "replay", lifeID, round, "--dir", restored}},
	} {
		if code, out, errs := clitest.Run(c.args...); code != 0 || !strings.Contains(out, c.want) {
			t.Fatalf("%v: exit %d, %s%s; want %s", c.args, code, out, errs, c.want)
		}
	}

	// The backup serves the same under a new epoch; calls of the former one are refused.
	l.start("restored")
	select {
	case err := <-l.replica("a", a.token).stopped:
		if status.Code(err) != codes.OutOfRange {
			t.Errorf("a token of the former epoch: %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("a token of the former epoch is accepted")
	}
	again := l.replica("a", "")
	now := again.offered(5)
	if now.GetContentHash() != a.runs.GetContentHash() || now.GetEpoch().GetId() == a.runs.GetEpoch().GetId() ||
		now.GetEpoch().GetCounter() <= a.runs.GetEpoch().GetCounter() {
		t.Errorf("restored %v, was %v", now, a.runs)
	}
	if err := again.answer(a.runs, pb.Acknowledgement_APPLIED, ""); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("an acknowledgement of the former epoch: %v", err)
	}
	if err := again.answer(now, pb.Acknowledgement_APPLIED, ""); err != nil {
		t.Error(err)
	}
	l.stop()
}
