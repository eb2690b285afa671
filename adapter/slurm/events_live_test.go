package slurm

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/autosched/autosched/adapter/slurm/slurmtest"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/internal/slurmtext"
)

// stored is a service that stores events.
type stored struct {
	pb.UnimplementedTuningServiceServer
	mu     sync.Mutex
	events []*pb.Event
	byID   map[string]*pb.Event
	faults []string
}

func (s *stored) IngestEvents(stream pb.TuningService_IngestEventsServer) error {
	for {
		req, err := stream.Recv()
		if err != nil {
			return nil
		}
		s.mu.Lock()
		for _, e := range req.GetEvents() {
			before, again := s.byID[e.EventId]
			switch {
			case e.Kind == pb.Event_SNAPSHOT:
			case !again:
				s.byID[e.EventId] = e
				s.events = append(s.events, e)
			case !proto.Equal(before, e):
				s.faults = append(s.faults, fmt.Sprintf("%v came again as %v", before, e))
			}
		}
		s.mu.Unlock()
		if err := stream.Send(&pb.IngestEventsResponse{Sequence: req.GetSequence()}); err != nil {
			return err
		}
	}
}

// seen counts the events of jobs and nodes, as key, kind and second.
func (s *stored) seen() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]int{}
	for _, e := range s.events {
		switch {
		case e.Job != nil:
			_, key, _ := strings.Cut(e.Job.JobId, "/")
			key, _, _ = strings.Cut(key, "/")
			out[fmt.Sprint(key, " ", e.Kind, " ", e.SchedulerTime.Seconds)]++
		case e.Node != nil:
			out[fmt.Sprint(e.Node.NodeId, " ", e.Kind, " ", e.SchedulerTime.Seconds)]++
		}
	}
	return out
}

// TestSlurmPollerChild polls until it is killed: a process of its own, for TestSlurmEvents.
func TestSlurmPollerChild(t *testing.T) {
	address := os.Getenv("TEST_SERVICE")
	if address == "" {
		t.Skip("run by TestSlurmEvents")
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	p := &Poller{Commands: Commands{Conf: os.Getenv("TEST_CONF"), Timeout: 15 * time.Second},
		Dir: os.Getenv("TEST_DIR"), Interval: time.Second, Notify: func(err error) { fmt.Println(err) }}
	if err := p.Open(); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Options{Conn: conn, Scheduler: "prod",
		Snapshot: func() *pb.Event { return p.Snapshot(t.Context()) }})
	if err != nil {
		t.Fatal(err)
	}
	go p.Run(t.Context(), c)
	t.Error(c.Run(t.Context())) // does not return
}

// TestSlurmEvents compares the events of a poller that is killed every few seconds with accounting's records, of
// jobs that are requeued, preempted, heterogeneous, suspended, of an array and cancelled, and of nodes that are drained
// and down, while slurmctld and slurmdbd are away in turn. No event is lost, and none comes twice.
func TestSlurmEvents(t *testing.T) {
	slurmtest.Require(t)
	if !slurmtest.Full() {
		t.Skip("of make slurm")
	}
	c, err := slurmtest.Start(t.Context(), slurmtest.Options{Nodes: 4,
		Include:  "PriorityWeightAge=1000\nSchedulerParameters=bf_interval=2\n",
		Conf:     "PreemptType=preempt/qos\nPreemptMode=REQUEUE",
		Accounts: []slurmtest.Account{{Name: "vc1", Users: []string{owner}}},
		QOS:      map[string]int{"high": 100, "low": 10}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	l := &live{T: t, Cluster: c}
	service := &stored{byID: map[string]*pb.Event{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterTuningServiceServer(server, service)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	polled := l.killedPoller(listener.Addr().String())
	l.eventful()
	time.Sleep(20 * time.Second) // slurmdbd's lag, and a few lives of the poller
	kills := polled()
	t.Logf("the poller was killed %d times", kills)

	for _, fault := range service.faults {
		t.Error(fault)
	}
	got, want := service.seen(), l.recorded()
	submitted := map[string]int{}
	for key, n := range got {
		if id, _, is := strings.Cut(key, " SUBMITTED "); is {
			submitted[id] += n
			delete(got, key)
		}
	}
	for key := range want {
		if id, _, is := strings.Cut(key, " STARTED "); is && submitted[id] != 1 {
			t.Errorf("%s is submitted %d times", id, submitted[id])
		}
	}
	for key := range want {
		if got[key] != 1 && !(strings.HasPrefix(key, "g") && seenLater(got, key)) {
			t.Errorf("reported %d times: %s", got[key], key)
		}
	}
	for key, n := range got {
		if want[key] == 0 && !strings.HasPrefix(key, "g") { // nodes come, and are down for a moment as slurmctld is
			t.Errorf("reported %d times and not recorded: %s", n, key)
		}
	}
	if t.Failed() {
		for _, e := range service.events {
			if e.Kind != pb.Event_HEARTBEAT {
				t.Log(e.EventId, e.Kind, e.SchedulerTime.Seconds)
			}
		}
	}
}

// seenLater reports whether a change of a node is an event of the poll that saw it before slurmdbd had its time.
func seenLater(got map[string]int, key string) bool {
	i := strings.LastIndexByte(key, ' ')
	kind, text := key[:i], key[i+1:]
	at, err := strconv.ParseInt(text, 10, 64)
	for late := range int64(lag.Seconds()) {
		if err == nil && got[fmt.Sprint(kind, " ", at+late+1)] == 1 {
			return true
		}
	}
	return false
}

// killedPoller runs a poller, kills it every few seconds and starts it again. The function that is returned ends that
// and says how often.
func (l *live) killedPoller(address string) func() int {
	dir, done, ended := l.TempDir(), make(chan struct{}), make(chan int)
	go func() {
		kills := 0
		defer func() { ended <- kills }()
		for {
			cmd := exec.Command(os.Args[0], "-test.run=^TestSlurmPollerChild$", "-test.v")
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it does not outlive a test that fails
			cmd.Env = append(os.Environ(), "TEST_SERVICE="+address, "TEST_CONF="+l.Conf(), "TEST_DIR="+dir)
			out, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err == nil {
				cmd.Stdout, cmd.Stderr = out, out
				err = cmd.Start()
			}
			if err != nil {
				l.Error(err)
				<-done
				return
			}
			last := false
			select {
			case <-done:
				last = true
			case <-time.After(time.Duration(2500+700*(kills%4)) * time.Millisecond):
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			_ = out.Close()
			if last {
				return
			}
			kills++
		}
	}()
	return func() int { close(done); return <-ended }
}

// eventful has everything happen that accounting distinguishes, and returns when all jobs have ended.
func (l *live) eventful() {
	l.Helper()
	run := func(program string, args ...string) {
		l.Helper()
		if out, err := l.Cluster.Run(l.Context(), program, args...); err != nil {
			l.Fatalf("%v: %s", err, out)
		}
	}
	submit := func(seconds, gpus int, qos string, more ...string) string {
		l.Helper()
		id, err := l.Submit(l.Context(), slurmtest.Job{Seconds: seconds, GPUs: gpus, Minutes: 5, User: owner,
			Account: "vc1", QOS: qos, More: more})
		if err != nil {
			l.Fatal(err)
		}
		return id
	}
	started := func(ids ...string) {
		l.Helper()
		l.until("started", func() error {
			now := l.running()
			for _, id := range ids {
				if !slices.Contains(now, id) {
					return fmt.Errorf("%s does not run", id)
				}
			}
			return nil
		})
	}
	run("sacctmgr", "-i", "modify", "qos", "high", "set", "preempt=low")
	submit(4, 2, "", "--array=1-4%2")
	requeued, suspended, cancelled := submit(8, 4, "high"), submit(10, 2, "high"), submit(60, 1, "high")
	if _, err := l.Cluster.Run(l.Context(), "sbatch", "--uid="+owner, "--account=vc1", "--chdir=/", "-o", "/dev/null",
		"-t", "5", "-N1", "-c1", "--mem=100", "--gres=gpu:1", ":", "-N1", "-c1", "--mem=100", "--gres=gpu:2",
		filepath.Join(filepath.Dir(l.Conf()), "job.sh"), "5"); err != nil {
		l.Fatal(err)
	}
	run("scontrol", "update", "nodename=g4", "state=drain", "reason=test")
	started(requeued, suspended, cancelled)
	run("scontrol", "requeue", requeued)
	run("scontrol", "suspend", suspended)
	run("scancel", cancelled)
	time.Sleep(3 * time.Second)
	run("scontrol", "resume", suspended)
	run("scontrol", "update", "nodename=g4", "state=resume")
	submit(1, 1, "", "--begin=now+8")

	time.Sleep(5 * time.Second) // the times of nodes reach slurmdbd, too
	l.StopAccounting()          // slurmdbd is away while jobs start and end
	low := []string{submit(20, 8, "low"), submit(20, 8, "low"), submit(20, 8, "low"), submit(20, 8, "low")}
	submit(1, 1, "low")
	time.Sleep(6 * time.Second)
	if err := l.StartAccounting(l.Context()); err != nil {
		l.Fatal(err)
	}
	l.until("low jobs run", func() error {
		if now := l.running(); !slices.Contains(now, low[0]) {
			return errors.New("none")
		}
		return nil
	})
	preemptor := submit(4, 8, "high", "--nodes=2") // the last of its kind counts
	started(preemptor)

	// slurmctld is away while jobs end. It saves its state within 5 s of a change: a job that it has forgotten is no
	// matter of events.
	across := []string{submit(14, 1, "high"), submit(16, 1, "high", "--nodes=2")}
	started(across...)
	time.Sleep(8 * time.Second)
	l.KillController()
	time.Sleep(10 * time.Second)
	if err := l.StartController(l.Context()); err != nil {
		l.Fatal(err)
	}
	time.Sleep(holdOff - 30*time.Second) // of requeued jobs
	l.until("all jobs have ended", func() error {
		out, err := l.Cluster.Run(l.Context(), "squeue", "-h", "-o", "%A %T %r")
		if err == nil && len(out) > 0 {
			err = fmt.Errorf("there are %s", out)
		}
		return err
	})
}

// recorded are the events that accounting shows: of jobs by their rows, and of the drained node.
func (l *live) recorded() map[string]int {
	l.Helper()
	out, err := Commands{Conf: l.Conf()}.Run(l.Context(), "sacct", "-X", "-a", "-D", "-P", "-S", "now-1hour",
		"--format=JobID,DBIndex,Start,End,State,Suspended")
	if err != nil {
		l.Fatal(err)
	}
	l.Logf("%s", out)
	want, states := map[string]int{}, map[string]int{}
	rows := map[string][]slurmtext.Record{}
	records, err := slurmtext.Table(out)
	if err != nil {
		l.Fatal(err)
	}
	for _, f := range records {
		id, component, het := strings.Cut(f["jobid"], "+")
		if het && component != "0" {
			continue
		}
		rows[id] = append(rows[id], f)
	}
	for id, all := range rows {
		starts := 0
		for i, f := range all {
			start, end := instant(f["start"]), instant(f["end"])
			states[f["state"]]++
			if f["suspended"] != "00:00:00" {
				states["suspended"]++
			}
			if start.IsZero() {
				continue
			}
			kind := "RESUMED"
			if starts++; starts == 1 {
				kind = "STARTED"
			}
			want[fmt.Sprint(id, " ", kind, " ", start.Unix())]++
			kind = "FINISHED"
			if i+1 < len(all) {
				kind = "PREEMPTED"
			}
			want[fmt.Sprint(id, " ", kind, " ", end.Unix())]++
		}
	}
	if states["PREEMPTED"] == 0 || states["REQUEUED"] == 0 || states["suspended"] == 0 {
		l.Errorf("little happened: %v", states)
	}
	outages, err := Commands{Conf: l.Conf()}.outages(l.Context(), "emulated", time.Now().Add(-time.Hour))
	if err != nil {
		l.Fatal(err)
	}
	for _, o := range outages {
		if o.node == "g4" && o.state == "draining" {
			want[fmt.Sprint("g4 NODE_DRAINED ", o.start.Unix())]++
			want[fmt.Sprint("g4 NODE_UP ", o.end.Unix())]++
		}
	}
	return want
}
