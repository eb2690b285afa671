package serve

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/testshared"
)

const killedStudy = "schedulers/s/studies/k"

// studyClientOf makes the test binary a client of the study of the service at an address, under a name.
const (
	studyClientOf   = "AUTOSCHED_STUDY_CLIENT_OF"
	studyClientName = "AUTOSCHED_STUDY_CLIENT_NAME"
)

// studyClient begins once its input ends. It asks for trials, takes a while to measure each and reports it, until the
// study is over, and prints each step before it takes it.
func studyClient(address, name string) {
	say := func(words ...any) { fmt.Printf(strings.Repeat("%v\t", len(words))+"\n", words...) }
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second,
			Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond}}))
	if err != nil {
		say("failed", err)
		return
	}
	defer conn.Close()
	c := pb.NewStudyServiceClient(conn)
	say("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	// A call that is cut off may have been answered.
	soon := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.Background(), time.Duration(5+rand.IntN(400))*time.Millisecond)
	}
	for {
		call, cut := soon()
		got, err := c.SuggestTrials(call, &pb.SuggestTrialsRequest{Parent: killedStudy, ClientId: name})
		cut()
		switch {
		case status.Code(err) == codes.FailedPrecondition:
			call, cut := soon()
			all, err := c.ListStudies(call, &pb.ListStudiesRequest{Parent: "schedulers/s"})
			cut()
			if err == nil && all.GetStudies()[0].GetState() == pb.Study_COMPLETED {
				say("over")
				return
			}
			time.Sleep(50 * time.Millisecond) // others hold the rest
		case err != nil || len(got.GetTrials()) == 0:
			time.Sleep(10 * time.Millisecond)
		default:
			trial := got.GetTrials()[0]
			say("holds", trial.GetName())
			time.Sleep(time.Duration(20+rand.IntN(200)) * time.Millisecond)
			reportTrial(c, trial, soon, say)
		}
	}
}

// reportTrial reports a trial until it is answered, and gives up at times.
func reportTrial(c pb.StudyServiceClient, trial *pb.Trial, soon func() (context.Context, context.CancelFunc),
	say func(...any)) {
	value := rand.Float64()
	req := &pb.CompleteTrialRequest{Name: trial.GetName(), Result: &pb.CompleteTrialRequest_FinalMeasurement{
		FinalMeasurement: &pb.Measurement{Metrics: map[string]float64{"wait": value}}}}
	want := &pb.Trial{State: pb.Trial_SUCCEEDED, FinalMeasurement: req.GetFinalMeasurement()}
	switch rand.IntN(12) {
	case 0:
		req.Result = &pb.CompleteTrialRequest_Failure{Failure: fmt.Sprint("no GPU ", value)}
		want = &pb.Trial{State: pb.Trial_FAILED, Reason: req.GetFailure()}
	case 1:
		req.Result = &pb.CompleteTrialRequest_InfeasibleReason{InfeasibleReason: fmt.Sprint("no start ", value)}
		want = &pb.Trial{State: pb.Trial_INFEASIBLE, Reason: req.GetInfeasibleReason()}
	}
	say("sends", trial.GetName(), outcomeOf(want))
	for range 3 {
		call, cut := soon()
		got, err := c.CompleteTrial(call, req)
		cut()
		switch status.Code(err) {
		case codes.OK:
			say("answered", trial.GetName(), outcomeOf(got))
			return
		case codes.FailedPrecondition: // another client with the name reported it
			return
		case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded, codes.Aborted:
		default:
			say("failed", trial.GetName(), err)
		}
	}
}

// killedClients are the client processes of a study, which are killed as its service is, with their output.
type killedClients struct {
	t      *testing.T
	ready  sync.WaitGroup // clients whose first life is about to begin
	begin  chan struct{}
	over   chan struct{} // closed once a client finds the study over
	mu     sync.Mutex
	sent   map[string]map[string]bool // by trial: the results that may be the recorded one
	acked  map[string]string          // by trial: the result that the service answered
	names  int
	deaths []int // of each client
	ended  bool
}

// outcomeOf is the result of a trial in words.
func outcomeOf(t *pb.Trial) string {
	return fmt.Sprint(t.GetState(), t.GetReason(), t.GetFinalMeasurement().GetMetrics()["wait"])
}

// client is a client process, which is killed at random, and then comes back under its own name or another, until the
// context ends.
func (k *killedClients) client(ctx context.Context, n int, address string) {
	name := ""
	for first := true; ctx.Err() == nil; first = false {
		if name == "" || rand.IntN(4) == 0 { // another host
			k.mu.Lock()
			k.names++
			name = "client-" + strconv.Itoa(k.names)
			k.mu.Unlock()
		}
		life, kill := context.WithCancel(ctx)
		cmd := exec.CommandContext(life, os.Args[0]) // ends it by SIGKILL
		cmd.Env = append(os.Environ(), studyClientOf+"="+address, studyClientName+"="+name)
		begin, err := cmd.StdinPipe()
		out, failed := cmd.StdoutPipe()
		if err := cmp.Or(err, failed, cmd.Start()); err != nil {
			k.t.Error(err)
			kill()
			if first {
				k.ready.Done()
			}
			return
		}
		for lines, held := bufio.NewScanner(out), false; lines.Scan(); {
			words := strings.Split(lines.Text(), "\t")
			k.said(words)
			switch {
			case words[0] == "ready":
				if first {
					k.ready.Done()
					<-k.begin
				}
				_ = begin.Close()
			case words[0] == "holds" && !held: // it is killed a moment later, or while it measures another one
				held = true
				time.AfterFunc(time.Duration(rand.IntN(300))*time.Millisecond, kill)
			}
		}
		kill()
		if err := cmd.Wait(); err != nil && ctx.Err() == nil {
			k.mu.Lock()
			k.deaths[n]++
			k.mu.Unlock()
		}
	}
}

// said records a line of a client.
func (k *killedClients) said(words []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case words[0] == "over":
		if !k.ended {
			k.ended = true
			close(k.over)
		}
	case words[0] == "failed":
		k.t.Error(words)
	case words[0] == "sends":
		if k.sent[words[1]] == nil {
			k.sent[words[1]] = map[string]bool{}
		}
		k.sent[words[1]][words[2]] = true
	case words[0] == "answered":
		if before, ok := k.acked[words[1]]; ok && before != words[2] {
			k.t.Errorf("%s: answered %s, before %s", words[1], words[2], before)
		}
		k.acked[words[1]] = words[2]
	}
}

// serve starts the service and returns a function that kills it.
func (k *killedClients) serve(dir, address string) (kill func()) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), killDir+"="+dir, killListen+"="+address)
	log, err := child.StderrPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		k.t.Fatal(err)
	}
	lines := bufio.NewScanner(log)
	for serving := false; !serving; serving = strings.Contains(lines.Text(), "msg=serving address=") {
		if !lines.Scan() {
			_ = child.Process.Kill()
			k.t.Fatal("the service did not start: ", lines.Text())
		}
	}
	drained := make(chan struct{})
	go func() { // a full pipe would stop the service
		defer close(drained)
		for lines.Scan() {
		}
	}()
	return func() {
		_ = child.Process.Kill()
		<-drained
		_ = child.Wait()
	}
}

// study runs a study to its end, and returns how often its service was killed.
func (k *killedClients) study(budget, most int) (kills int) {
	dir, address := k.t.TempDir(), testshared.FreeAddress(k.t)
	kill := k.serve(dir, address)
	defer func() { kill() }()
	conn, err := (&cli.ConnectFlags{Server: address}).Dial()
	if err != nil {
		k.t.Fatal(err)
	}
	defer conn.Close()
	studies := pb.NewStudyServiceClient(conn)
	k.create(k.t.Context(), pb.NewTuningServiceClient(conn), studies, budget)
	ctx, cancel := context.WithCancel(k.t.Context())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer cancel()
	k.ready.Add(len(k.deaths))
	for n := range k.deaths {
		clients.Go(func() { k.client(ctx, n, address) })
	}
	k.ready.Wait()
	close(k.begin)
	for over := false; !over; {
		after := time.Duration(50+rand.IntN(400)) * time.Millisecond
		if kills == most {
			after = 2 * time.Minute
		}
		select {
		case <-k.over:
			over = true
		case <-time.After(after):
			if kills == most {
				k.t.Fatal("the study does not end")
			}
			kill()
			kills++
			kill = k.serve(dir, address)
		}
	}
	cancel()
	clients.Wait() // their output is complete
	for _, t := range k.check(k.t.Context(), studies) {
		switch t.GetState() {
		case pb.Trial_SUCCEEDED, pb.Trial_FAILED, pb.Trial_INFEASIBLE, pb.Trial_STALE, pb.Trial_SKIPPED:
		default:
			k.t.Errorf("%s is still %s", t.GetName(), t.GetState())
		}
	}
	return kills
}

func (k *killedClients) create(ctx context.Context, tuning pb.TuningServiceClient, c pb.StudyServiceClient,
	budget int) {
	unit := func(id string) *pb.ParameterSpec {
		return &pb.ParameterSpec{ParameterId: id, DefaultValue: structpb.NewNumberValue(.5),
			ParameterValueSpec: &pb.ParameterSpec_DoubleValueSpec{DoubleValueSpec: &pb.DoubleValueSpec{MaxValue: 1}}}
	}
	_, err := tuning.CreateScheduler(ctx, &pb.CreateSchedulerRequest{SchedulerId: "s", Scheduler: &pb.Scheduler{
		Spec: &pb.SchedulerSpec{SchedulerType: "external", Cluster: &pb.Cluster{Nodes: 1, GpusPerNode: 8},
			Objective:  &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_MetricId{MetricId: "wait"}},
			Parameters: []*pb.ParameterSpec{unit("x"), unit("y")}}}})
	if err != nil {
		k.t.Fatal(err)
	}
	_, err = c.CreateStudy(ctx, &pb.CreateStudyRequest{Parent: "schedulers/s", StudyId: "k", Study: &pb.Study{
		Spec: &pb.StudySpec{Algorithm: "sobol", TrialBudget: int32(budget),
			LeaseDuration: durationpb.New(200 * time.Millisecond)}}})
	if err != nil {
		k.t.Fatal(err)
	}
}

// check finds every answered trial in the service, and none that was not sent.
func (k *killedClients) check(ctx context.Context, c pb.StudyServiceClient) []*pb.Trial {
	all, err := cli.ListTrials(ctx, (&cli.Client{Studies: c}), killedStudy, cli.ListFlags{})
	if err != nil {
		k.t.Fatal(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	has := map[string]*pb.Trial{}
	of := map[string]string{}
	for i, t := range all.GetTrials() {
		if has[t.GetName()] = t; cli.ShortName(t.GetName()) != strconv.Itoa(i+1) {
			k.t.Errorf("trial %d is %s", i+1, t.GetName())
		}
		switch t.GetState() {
		case pb.Trial_SUCCEEDED, pb.Trial_FAILED, pb.Trial_INFEASIBLE:
			if !k.sent[t.GetName()][outcomeOf(t)] {
				k.t.Errorf("%s is %s, which no client sent", t.GetName(), outcomeOf(t))
			}
		}
		if before, twice := of[cli.ParametersLine(t)]; twice && t.GetRetryOf() == "" {
			k.t.Errorf("%s is %s again", t.GetName(), before)
		}
		of[cli.ParametersLine(t)] = t.GetName()
	}
	for name, outcome := range k.acked {
		if got := outcomeOf(has[name]); got != outcome {
			k.t.Errorf("%s is %s; answered was %s", name, got, outcome)
		}
	}
	return all.GetTrials()
}

// TestStudyKills: a study of 200 trials by 16 client processes, each of which is killed at random, on a service that is
// killed, too. Every trial ends, none twice, none is lost. AUTOSCHED_STUDY_KILLS is the number of kills of the service;
// studies are repeated until then.
func TestStudyKills(t *testing.T) {
	clients, budget, most := 16, 200, 5 // kills of the service, so that it ends
	if testing.Short() {
		clients, budget = 4, 40
	}
	tally := testshared.NewTally(t, "AUTOSCHED_STUDY_KILLS", 1)
	if tally.Left() > 1 {
		most = 40
	}
	for studies := 0; tally.Left() > 0; studies++ {
		k := &killedClients{t: t, sent: map[string]map[string]bool{}, acked: map[string]string{},
			begin: make(chan struct{}), over: make(chan struct{}), deaths: make([]int, clients)}
		n := k.study(budget, most)
		sent := 0
		for _, of := range k.sent {
			sent += len(of)
		}
		t.Logf("study %d: %d kills of the service, deaths of clients %v, %d results sent, %d trials answered",
			studies, n, k.deaths, sent, len(k.acked))
		if slices.Contains(k.deaths, 0) {
			t.Errorf("a client was not killed: %v", k.deaths)
		}
		tally.Add(n)
	}
}
