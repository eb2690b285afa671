package serve

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// killDir makes the test binary a service on a directory, whose rounds decide at once and whose
// days are a few commits long, so that kills hit the making of segments.
const killDir = "AUTOSCHED_KILL_TEST_DIR"

// killListen is where that service listens; any port if it is not set.
const killListen = "AUTOSCHED_KILL_TEST_LISTEN"

func serveForKills(dir string) {
	segments, err := filepath.Glob(filepath.Join(dir, "events-*.db"))
	if err != nil {
		panic(err)
	}
	const perDay = 20
	commits := perDay * len(segments)
	o := serveOptions{dir: dir, listen: cmp.Or(os.Getenv(killListen), "127.0.0.1:0"), operations: "127.0.0.1:0",
		workers: 1, pollAfter: time.Second, drain: time.Second,
		decide: func(_ context.Context, in round.Input) (round.Decision, error) {
			return round.Decision{Config: in.Incumbent.With("starve_limit", space.Num(float64(300+in.Round%9999))),
				Adopt: true, Ratio: 1.5, Reason: "test"}, nil
		},
		now: func() time.Time {
			commits++
			return time.Date(2024, 1, 1+commits/perDay, 0, 0, 0, 0, time.UTC)
		}}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := o.run(context.Background(), log); err != nil {
		log.Error(err.Error())
	}
}

// killed records the observed answers of a service through all its lives on one directory.
type killed struct {
	t   *testing.T
	dir string

	mu      sync.Mutex
	at      time.Duration // of the latest event
	next    int           // number of the next batch
	batches map[int]*pb.IngestEventsRequest
	acked   map[int]bool
	last    map[int]bool // the batches of the life before
	of      map[string]*killedScheduler
	counts  map[string]int
}

// killedScheduler records the observed state of one scheduler.
type killedScheduler struct {
	hashes []string          // by revision, from 1
	acks   []map[string]bool // by revision: acknowledgements that may be the recorded one
	park   map[string]bool   // hashes of values that it refused
	seed   uint64            // the last setting acknowledged
	tried  uint64            // the last one asked for
	token  string            // of the watch
	seen   int64             // the watch's newest revision
}

func (k *killed) count(what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.counts[what]++
}

// sees checks a configuration that the service answered: its values are in the space, match their hash, and never
// change within a revision.
func (k *killed) sees(id string, c *pb.Configuration) {
	values := map[string]any{}
	for name, v := range c.GetParameters() {
		values[name] = v.AsInterface()
	}
	text, err := json.Marshal(values)
	if err != nil {
		k.t.Error(err)
		return
	}
	read, err := tiresiasSpace.ParseJSON(text)
	if err != nil || read.Hash() != c.GetContentHash() {
		k.t.Errorf("%s is %s with SHA-256 %s: %v", c.GetName(), text, c.GetContentHash(), err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.of[id]
	for int64(len(s.hashes)) < c.GetRevision() {
		s.hashes, s.acks = append(s.hashes, ""), append(s.acks, nil)
	}
	if at := &s.hashes[c.GetRevision()-1]; *at == "" {
		*at = c.GetContentHash()
		k.counts[c.GetOrigin().String()]++
	} else if *at != c.GetContentHash() {
		k.t.Errorf("%s had SHA-256 %s, now %s", c.GetName(), *at, c.GetContentHash())
	}
}

var tiresiasSpace = func() *space.Space {
	s, err := schedulers.Find("tiresias")
	if err != nil {
		panic(err)
	}
	return s.Space
}()

// fails reports whether a call failed. A refusal and a service that was killed are expected.
func (k *killed) fails(what string, err error) bool {
	switch status.Code(err) {
	case codes.OK:
		k.count(what)
		return false
	case codes.FailedPrecondition, codes.Aborted:
		k.count(what + " refused")
	case codes.Unavailable, codes.Canceled:
	default:
		k.t.Errorf("%s: %v", what, err)
	}
	return true
}

// ingest sends batches until the service is gone.
func (k *killed) ingest(ctx context.Context, c pb.TuningServiceClient, id string) {
	stream, err := c.IngestEvents(ctx)
	if k.fails("stream", err) {
		return
	}
	for {
		k.mu.Lock()
		k.next++
		n := k.next
		k.at += 2 * time.Minute
		req := &pb.IngestEventsRequest{Parent: "schedulers/" + id, Sequence: int64(n)}
		for i := range 1 + n%7 {
			at := timestamppb.New(time.Date(2024, 1, 1, 0, 0, i, 0, time.UTC).Add(k.at))
			job := &pb.JobDetails{JobId: fmt.Sprintf("%d/%d", n, i), Tenant: "vc", MilliGpus: 1000}
			req.Events = append(req.Events,
				&pb.Event{EventId: job.JobId + "+", Kind: pb.Event_SUBMITTED, SchedulerTime: at, Job: job},
				&pb.Event{EventId: job.JobId + "-", Kind: pb.Event_FINISHED, SchedulerTime: at,
					Job: &pb.JobDetails{JobId: job.JobId, EndStatus: pb.JobDetails_CANCELLED}})
		}
		k.batches[n] = req
		k.mu.Unlock()
		if stream.Send(req) != nil {
			return
		}
		answer, err := stream.Recv()
		if k.fails("batch", err) {
			return
		}
		if int(answer.GetAcceptedCount()) != len(req.GetEvents()) || answer.GetSequence() != req.GetSequence() {
			k.t.Errorf("batch %d: %v", n, answer)
		}
		k.mu.Lock()
		k.acked[n], k.last[n] = true, true
		k.mu.Unlock()
	}
}

// resend sends the batches of the life before again: acknowledged ones are known, and of others all or nothing.
func (k *killed) resend(ctx context.Context, c pb.TuningServiceClient) {
	sent, streams := map[int]bool{}, map[string]eventStream{}
	for n, req := range k.batches {
		if k.acked[n] && !k.last[n] {
			continue
		}
		stream, err := streams[req.GetParent()], error(nil)
		if stream == nil {
			if stream, err = c.IngestEvents(ctx); err != nil {
				k.t.Fatal(err)
			}
			streams[req.GetParent()] = stream
		}
		if err := stream.Send(req); err != nil {
			k.t.Fatal(err)
		}
		answer, err := stream.Recv()
		if err != nil {
			k.t.Fatal(err)
		}
		fresh, known := int(answer.GetAcceptedCount()), int(answer.GetDuplicateCount())
		if fresh+known != len(req.GetEvents()) || fresh > 0 && (known > 0 || k.acked[n]) {
			k.t.Errorf("batch %d, acknowledged %v, sent again: %v", n, k.acked[n], answer)
		}
		sent[n] = true
	}
	for n := range sent {
		k.acked[n] = true
		delete(k.last, n)
	}
}

// operate acts as operators and schedulers do until the service is gone.
func (k *killed) operate(ctx context.Context, id string, tuning pb.TuningServiceClient,
	config pb.ConfigurationServiceClient) {
	name, s := "schedulers/"+id, k.of[id]
	for {
		switch pick := rand.IntN(10); {
		case pick < 5:
			got, err := config.GetCurrentConfiguration(ctx, &pb.GetCurrentConfigurationRequest{Name: name})
			if k.fails("get", err) {
				break
			}
			c := got.GetConfiguration()
			k.sees(id, c)
			ack := &pb.Acknowledgement{State: pb.Acknowledgement_APPLIED}
			refuse := pick < 2 && c.GetContentHash() != s.hashes[0]
			if refuse {
				ack.State = pb.Acknowledgement_REJECTED
			}
			ack.Error = strconv.Itoa(rand.IntN(1e9))
			k.mu.Lock()
			acks := &s.acks[c.GetRevision()-1]
			if *acks == nil {
				*acks = map[string]bool{"": true}
			}
			(*acks)[ack.GetError()] = true
			k.mu.Unlock()
			if k.fails(ack.GetState().String(),
				second(config.AcknowledgeConfiguration(ctx, &pb.AcknowledgeConfigurationRequest{Name: c.GetName(),
					Acknowledgement: ack}))) {
				break
			}
			k.mu.Lock()
			*acks = map[string]bool{ack.GetError(): true}
			if refuse {
				s.park[c.GetContentHash()] = true
			}
			k.mu.Unlock()
		case pick < 7:
			k.mu.Lock()
			to := 1 + rand.IntN(len(s.hashes))
			k.mu.Unlock()
			c, err := config.RollbackConfiguration(ctx,
				&pb.RollbackConfigurationRequest{Parent: name, Revision: int64(to)})
			if !k.fails("rollback", err) {
				k.sees(id, c)
			}
		case pick < 9:
			list, err := config.ListConfigurations(ctx, &pb.ListConfigurationsRequest{Parent: name, PageSize: 1000})
			if k.fails("list", err) {
				break
			}
			for _, c := range list.GetConfigurations() {
				k.sees(id, c)
				if c.GetState() == pb.Configuration_PROPOSED {
					k.fails("approve", second(config.ApproveConfiguration(ctx,
						&pb.ApproveConfigurationRequest{Name: c.GetName()})))
				}
			}
		default:
			s.tried++
			got, err := tuning.UpdateScheduler(ctx, &pb.UpdateSchedulerRequest{
				Scheduler: &pb.Scheduler{Name: name,
					Spec: &pb.SchedulerSpec{Rollout: &pb.RolloutPolicy{Seed: s.tried}}},
				UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"spec.rollout.seed"}}})
			if !k.fails("update", err) {
				s.seed = got.GetSpec().GetRollout().GetSeed()
			}
		}
		if ctx.Err() != nil {
			return
		}
	}
}

type eventStream = grpc.BidiStreamingClient[pb.IngestEventsRequest, pb.IngestEventsResponse]

func second[T any](_ T, err error) error { return err }

// watch follows a scheduler from where the life before ended.
func (k *killed) watch(ctx context.Context, id string, config pb.ConfigurationServiceClient) {
	s := k.of[id]
	stream, err := config.WatchConfigurations(ctx, &pb.WatchConfigurationsRequest{Parent: "schedulers/" + id,
		ResumeToken: s.token, SendInitialEvents: true})
	for err == nil {
		var got *pb.WatchConfigurationsResponse
		if got, err = stream.Recv(); err != nil {
			break
		}
		if c := got.GetConfiguration(); c != nil {
			k.sees(id, c)
			k.count("watched")
			if c.GetRevision() <= s.seen {
				k.t.Errorf("%s: the watch went from revision %d to %d", id, s.seen, c.GetRevision())
			}
			s.seen = c.GetRevision()
		}
		s.token = got.GetResumeToken()
	}
	k.fails("watch", err)
}

// check looks for everything that was acknowledged in the lives before.
func (k *killed) check(ctx context.Context, tuning pb.TuningServiceClient, config pb.ConfigurationServiceClient) {
	for id, s := range k.of {
		name := "schedulers/" + id
		known := len(s.hashes)
		list, err := config.ListConfigurations(ctx, &pb.ListConfigurationsRequest{Parent: name, PageSize: 1000})
		if err != nil {
			k.t.Fatal(err)
		}
		if n := len(list.GetConfigurations()); n < known && list.GetNextPageToken() == "" {
			k.t.Errorf("%s: %d revisions, %d were seen", id, n, known)
		}
		for _, c := range list.GetConfigurations() {
			k.sees(id, c)
			got := c.GetAcknowledgement().GetError()
			if want := s.acks[c.GetRevision()-1]; want != nil && !want[got] {
				k.t.Errorf("%s: its acknowledgement is %q, want one of %v", c.GetName(), got, want)
			}
		}
		got, err := config.GetCurrentConfiguration(ctx, &pb.GetCurrentConfigurationRequest{Name: name})
		if err != nil {
			k.t.Fatal(err)
		}
		if c := got.GetConfiguration(); s.park[c.GetContentHash()] {
			k.t.Errorf("%s has values that the scheduler refused", c.GetName())
		}
		now, err := tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: name})
		if err != nil {
			k.t.Fatal(err)
		}
		if seed := now.GetSpec().GetRollout().GetSeed(); seed < s.seed || seed > s.tried {
			k.t.Errorf("%s: seed %d, want %d to %d", id, seed, s.seed, s.tried)
		}
	}
}

// checkStore looks for every event acknowledged, once, in the files.
func (k *killed) checkStore() {
	r, err := store.OpenReader(k.dir)
	if err != nil {
		k.t.Fatal(err)
	}
	defer r.Close()
	found := map[string]int{}
	damage, err := r.ReplayEvents("", func(_ string, e workload.Event) error { found[e.ID]++; return nil })
	if err != nil || len(damage) > 0 {
		k.t.Fatal(err, damage)
	}
	_, _, damage, err = r.Load()
	if err != nil || len(damage) > 0 {
		k.t.Fatal(err, damage)
	}
	events := 0
	for n := range k.acked {
		for _, e := range k.batches[n].GetEvents() {
			events++
			if found[e.GetEventId()] != 1 {
				k.t.Fatalf("event %s was acknowledged and is stored %d times", e.GetEventId(), found[e.GetEventId()])
			}
		}
	}
	segments, _ := filepath.Glob(filepath.Join(k.dir, "events-*.db"))
	k.counts["events"] += events
	k.counts["segments"] += len(segments)
}

// start starts the service. kill ends it by SIGKILL, and returns once it is gone.
func (k *killed) start() (conn *grpc.ClientConn, kill func()) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), killDir+"="+k.dir)
	log, err := child.StderrPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		k.t.Fatal(err)
	}
	watchdog := time.AfterFunc(2*time.Minute, func() { _ = child.Process.Kill() })
	serving := regexp.MustCompile(`msg=serving address=(\S+)`)
	address, said := make(chan string, 1), ""
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(address)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			if m := serving.FindStringSubmatch(lines.Text()); m != nil {
				address <- m[1]
			}
			said = lines.Text()
		}
	}()
	var once sync.Once
	kill = func() {
		once.Do(func() {
			watchdog.Stop()
			_ = child.Process.Kill()
			<-ended
			if err := child.Wait(); err == nil || child.ProcessState.ExitCode() >= 0 {
				k.t.Errorf("the service ended by itself: %v: %s", child.ProcessState, said)
			}
		})
	}
	at, ok := <-address
	if !ok {
		k.t.Fatalf("the service did not start: %s", said)
	}
	if conn, err = (&cli.ConnectFlags{Server: at}).Dial(); err != nil {
		kill()
		k.t.Fatal(err)
	}
	return conn, kill
}

// life starts the service, checks it, and kills it while it works.
func (k *killed) life(first bool) {
	conn, kill := k.start()
	defer kill()
	ctx, cancel := context.WithTimeout(k.t.Context(), 2*time.Minute)
	defer cancel()
	tuning, config := pb.NewTuningServiceClient(conn), pb.NewConfigurationServiceClient(conn)
	if first {
		k.register(ctx, tuning, config)
	}
	k.check(ctx, tuning, config)
	k.resend(ctx, tuning)
	var wg sync.WaitGroup
	for id := range k.of {
		wg.Go(func() { k.ingest(ctx, tuning, id) })
		wg.Go(func() { k.operate(ctx, id, tuning, config) })
		wg.Go(func() { k.watch(ctx, id, config) })
	}
	time.Sleep(time.Duration(rand.IntN(60_000)) * time.Microsecond)
	kill()
	cancel()
	_ = conn.Close()
	wg.Wait()
}

// register makes one scheduler in each mode.
func (k *killed) register(ctx context.Context, tuning pb.TuningServiceClient, config pb.ConfigurationServiceClient) {
	for id, mode := range map[string]pb.SchedulerSpec_Mode{"auto": pb.SchedulerSpec_AUTO,
		"manual": pb.SchedulerSpec_RECOMMEND} {
		_, err := tuning.CreateScheduler(ctx, &pb.CreateSchedulerRequest{SchedulerId: id, Scheduler: &pb.Scheduler{
			Spec: &pb.SchedulerSpec{SchedulerType: "tiresias", Mode: mode,
				Cluster: &pb.Cluster{Nodes: 4, GpusPerNode: 8},
				Rollout: &pb.RolloutPolicy{UpdateInterval: durationpb.New(10 * time.Minute), Seed: 1,
					AllowedLateness: durationpb.New(-1)}}}})
		if err != nil {
			k.t.Fatal(err)
		}
		k.of[id] = &killedScheduler{park: map[string]bool{}, seed: 1, tried: 1}
		got, err := config.GetCurrentConfiguration(ctx, &pb.GetCurrentConfigurationRequest{Name: "schedulers/" + id})
		if err != nil {
			k.t.Fatal(err)
		}
		k.sees(id, got.GetConfiguration())
	}
}

// TestKills kills a service with SIGKILL again and again while schedulers, operators and watchers use it, and after
// each looks for all that it had acknowledged. It finds losses by the death of a process, not by a power cut.
// AUTOSCHED_KILLS is the number of kills.
func TestKills(t *testing.T) {
	t.Parallel()
	kills, lives := 100, 25 // lives of one directory
	if testing.Short() {
		kills = 10
	}
	tally := testshared.NewTally(t, "AUTOSCHED_KILLS", kills)
	counts := map[string]int{}
	for tally.Left() > 0 {
		k := &killed{t: t, dir: t.TempDir(), batches: map[int]*pb.IngestEventsRequest{}, acked: map[int]bool{},
			last: map[int]bool{}, of: map[string]*killedScheduler{}, counts: counts}
		i := 0
		for n := min(lives, tally.Left()); i < n && !t.Failed(); i++ {
			k.life(i == 0)
		}
		k.checkStore()
		tally.Add(i)
		if err := os.RemoveAll(k.dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	kills = tally.Here()
	t.Logf("%d kills: %v", kills, counts)
	if kills < 100 {
		return // too few for each of these
	}
	for _, what := range []string{"batch", "APPLIED", "REJECTED", "rollback", "approve", "update", "watched", "segments",
		"TUNED"} {
		if counts[what] < kills/50 {
			t.Errorf("only %d times: %s", counts[what], what)
		}
	}
}
