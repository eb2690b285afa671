package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

const killedStudy = "schedulers/s/studies/k"

// killedClients are the clients of a study whose service is killed, too.
type killedClients struct {
	t      *testing.T
	mu     sync.Mutex
	sent   map[string]map[string]bool // by trial: the results that may be the recorded one
	acked  map[string]string          // by trial: the result that the service answered
	names  int
	deaths int
}

// outcomeOf is the result of a trial in words.
func outcomeOf(t *pb.Trial) string {
	return fmt.Sprint(t.GetState(), t.GetReason(), t.GetFinalMeasurement().GetMetrics()["wait"])
}

// work asks for trials and reports them as a client that dies at random, and then comes back under its own
// name or another, until the context ends.
func (k *killedClients) work(ctx context.Context, c pb.StudyServiceClient, done func()) {
	name := ""
	for ctx.Err() == nil {
		if name == "" || rand.IntN(10) == 0 { // another host
			k.mu.Lock()
			k.names++
			name = "client-" + strconv.Itoa(k.names)
			k.mu.Unlock()
		}
		// A call that is cut off may have been answered.
		call, cut := context.WithTimeout(ctx, time.Duration(5+rand.IntN(400))*time.Millisecond)
		got, err := c.SuggestTrials(call, &pb.SuggestTrialsRequest{Parent: killedStudy, ClientId: name})
		cut()
		if status.Code(err) == codes.FailedPrecondition {
			all, err := c.ListStudies(ctx, &pb.ListStudiesRequest{Parent: "schedulers/s"})
			if err == nil && all.GetStudies()[0].GetState() == pb.Study_COMPLETED {
				done()
				return
			}
			time.Sleep(50 * time.Millisecond) // others hold the rest
			continue
		}
		if err != nil || len(got.GetTrials()) == 0 {
			continue
		}
		trial := got.GetTrials()[0]
		if rand.IntN(5) == 0 { // dies with it
			k.mu.Lock()
			k.deaths++
			k.mu.Unlock()
			continue
		}
		k.report(ctx, c, trial)
	}
}

// report reports a trial until it is answered or the context ends.
func (k *killedClients) report(ctx context.Context, c pb.StudyServiceClient, trial *pb.Trial) {
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
	k.mu.Lock()
	if k.sent[trial.GetName()] == nil {
		k.sent[trial.GetName()] = map[string]bool{}
	}
	k.sent[trial.GetName()][outcomeOf(want)] = true
	k.mu.Unlock()
	for range 3 { // then it dies
		call, cut := context.WithTimeout(ctx, time.Duration(5+rand.IntN(400))*time.Millisecond)
		got, err := c.CompleteTrial(call, req)
		cut()
		switch status.Code(err) {
		case codes.OK:
			k.mu.Lock()
			if before, ok := k.acked[trial.GetName()]; ok && before != outcomeOf(got) {
				k.t.Errorf("%s: answered %s, before %s", trial.GetName(), outcomeOf(got), before)
			}
			k.acked[trial.GetName()] = outcomeOf(got)
			k.mu.Unlock()
			return
		case codes.FailedPrecondition: // another client with the name reported it
			return
		case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded, codes.Aborted:
		default:
			k.t.Errorf("%s: %v", trial.GetName(), err)
		}
	}
}

// life runs the service, and clients until the service is killed or the study is over, which it returns.
func (k *killedClients) life(dir string, first, kill bool) (over bool) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), killDir+"="+dir)
	log, err := child.StderrPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		k.t.Fatal(err)
	}
	lines := bufio.NewScanner(log)
	var at []string
	for at == nil && lines.Scan() {
		at = regexp.MustCompile(`msg=serving address=(\S+)`).FindStringSubmatch(lines.Text())
	}
	if at == nil {
		_ = child.Process.Kill()
		k.t.Fatal("the service did not start: ", lines.Text())
	}
	drained := make(chan struct{})
	go func() { // a full pipe would stop the service
		defer close(drained)
		for lines.Scan() {
		}
	}()
	defer func() {
		_ = child.Process.Kill()
		<-drained
		_ = child.Wait()
	}()
	conn, err := (&connectFlags{server: at[1]}).dial()
	if err != nil {
		k.t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(k.t.Context())
	defer cancel()
	client := pb.NewStudyServiceClient(conn)
	if first {
		k.create(ctx, pb.NewTuningServiceClient(conn), client)
	}
	k.check(ctx, client)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() { k.work(ctx, client, cancel) })
	}
	after := 2 * time.Minute
	if kill {
		after = time.Duration(5+rand.IntN(60)) * time.Millisecond
	}
	select {
	case <-ctx.Done():
		wg.Wait()
		for _, t := range k.check(k.t.Context(), client) {
			switch t.GetState() {
			case pb.Trial_SUCCEEDED, pb.Trial_FAILED, pb.Trial_INFEASIBLE, pb.Trial_STALE, pb.Trial_SKIPPED:
			default:
				k.t.Errorf("%s is still %s", t.GetName(), t.GetState())
			}
		}
		return true
	case <-time.After(after):
	}
	_ = child.Process.Kill()
	cancel()
	wg.Wait()
	return false
}

func (k *killedClients) create(ctx context.Context, tuning pb.TuningServiceClient, c pb.StudyServiceClient) {
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
		Spec: &pb.StudySpec{Algorithm: "sobol", TrialBudget: 200,
			LeaseDuration: durationpb.New(200 * time.Millisecond)}}})
	if err != nil {
		k.t.Fatal(err)
	}
}

// check finds all that was answered in what the service has, and nothing that was not sent.
func (k *killedClients) check(ctx context.Context, c pb.StudyServiceClient) []*pb.Trial {
	all, err := (&client{studies: c}).trials(ctx, killedStudy, listFlags{})
	if err != nil {
		k.t.Fatal(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	has := map[string]*pb.Trial{}
	of := map[string]string{}
	for i, t := range all.GetTrials() {
		if has[t.GetName()] = t; shortName(t.GetName()) != strconv.Itoa(i+1) {
			k.t.Errorf("trial %d is %s", i+1, t.GetName())
		}
		switch t.GetState() {
		case pb.Trial_SUCCEEDED, pb.Trial_FAILED, pb.Trial_INFEASIBLE:
			if !k.sent[t.GetName()][outcomeOf(t)] {
				k.t.Errorf("%s is %s, which no client sent", t.GetName(), outcomeOf(t))
			}
		}
		if before, twice := of[parametersLine(t)]; twice && t.GetRetryOf() == "" {
			k.t.Errorf("%s is %s again", t.GetName(), before)
		}
		of[parametersLine(t)] = t.GetName()
	}
	for name, outcome := range k.acked {
		if got := outcomeOf(has[name]); got != outcome {
			k.t.Errorf("%s is %s; answered was %s", name, got, outcome)
		}
	}
	return all.GetTrials()
}

// TestStudyKills: a study of 200 trials by 16 clients that die at random, on a service that is killed with
// SIGKILL in between. Every trial ends, none twice, none is lost. AUTOSCHED_STUDY_KILLS is the least number
// of kills of the service; studies are repeated until then.
func TestStudyKills(t *testing.T) {
	most := 5 // kills of a study, so that it ends
	least, _ := strconv.Atoi(os.Getenv("AUTOSCHED_STUDY_KILLS"))
	if least > 0 {
		most = 40
	}
	for kills, studies := 0, 0; (kills < least || studies == 0) && !t.Failed(); studies++ {
		k := &killedClients{t: t, sent: map[string]map[string]bool{}, acked: map[string]string{}}
		dir := t.TempDir()
		lives := 1
		for !k.life(dir, lives == 1, lives <= most) && !t.Failed() {
			if lives++; lives > most+1 {
				t.Fatal("the study does not end")
			}
		}
		kills += lives - 1
		sent := 0
		for _, of := range k.sent {
			sent += len(of)
		}
		t.Logf("study %d: %d kills of the service, %d deaths of clients, %d results sent, %d trials answered", studies,
			lives-1, k.deaths, sent, len(k.acked))
	}
}
