package evaluator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, says string }{
		{"", "has no evaluators"},
		{"evaluators: []", "has no evaluators"},
		{"evaluators:\n  -\n", "line 2: evaluators[0]: it is empty"},
		{"evaluators:\n  - id: X\n    command: [a]\n", `line 2: evaluators[0]: id: "X"`},
		{"evaluators:\n  - id: a\n", "command and address: want one of them"},
		{"evaluators:\n  - {id: a, command: [a], address: 'localhost:1'}\n", "command and address"},
		{"evaluators:\n  - {id: a, command: ['']}\n", "command: the program is empty"},
		{"evaluators:\n  - {id: a, command: [a], tls-ca: x}\n", "command: takes no tls-ca"},
		{"evaluators:\n  - {id: a, address: 'localhost:1', directory: /tmp}\n", "directory: is of a command"},
		{"evaluators:\n  - {id: a, address: 'example.org:1'}\n", "tls-ca: is missing"},
		{"evaluators:\n  - {id: a, address: 'nowhere'}\n", "address: "},
		{"evaluators:\n  - {id: a, command: [a], deadline: -1s}\n", "deadline: -1s is negative"},
		{"evaluators:\n  - {id: a, command: [a], parallel-trials: 101}\n", "parallel-trials: 101"},
		{"evaluators:\n  - {id: a, command: [a]}\n  - {id: a, command: [b]}\n", `line 3: evaluators[1]: id: "a" is another`},
		{"evaluators:\n  - {id: a, comand: [a]}\n", "comand"},
	} {
		if _, err := parse([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v, want %s", c.text, err, c.says)
		}
	}
	path := filepath.Join(t.TempDir(), "e.yaml")
	text := "evaluators:\n  - {id: a, command: [a, b]}\n" +
		"  - {id: b, address: '127.0.0.1:1', deadline: 30s, parallel-trials: 4, schedulers: [x]}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := Read(path)
	if err != nil || len(all) != 2 || all[0].Deadline != 10*time.Minute || all[0].Parallel() != 1 ||
		all[1].Deadline != 30*time.Second || all[1].Parallel() != 4 || all[1].Serves("y") || !all[1].Serves("x") ||
		!all[0].Serves("y") {
		t.Errorf("%+v, %v", all, err)
	}
}

// request is a configuration to measure.
func request() *pb.EvaluateRequest {
	return &pb.EvaluateRequest{Trial: "schedulers/s/studies/t/trials/1", MetricId: "wait", Seed: 3, Workload: "monday",
		Parameters: map[string]*structpb.Value{"n": structpb.NewNumberValue(7)}}
}

// steps evaluates and returns the steps, as text.
func steps(e *Evaluator, refuse error) (string, error) {
	said := ""
	err := e.Evaluate(context.Background(), request(), func(r *pb.EvaluateResponse) error {
		switch {
		case r.GetMeasurement() != nil:
			said += fmt.Sprintf("%d:%v ", r.GetMeasurement().GetStepCount(), r.GetMeasurement().GetMetrics())
			return refuse
		case r.GetFinalMeasurement() != nil:
			said += fmt.Sprintf("final %v", r.GetFinalMeasurement().GetMetrics())
		case r.GetFailure() != "":
			said += "failure " + r.GetFailure()
		case r.GetInfeasibleReason() != "":
			said += "infeasible " + r.GetInfeasibleReason()
		}
		return nil
	})
	return said, err
}

func TestCommand(t *testing.T) {
	t.Parallel()
	const final = `echo '{"finalMeasurement":{"metrics":{"wait":12}}}'`
	for _, c := range []struct {
		name, script, want string
		deadline           time.Duration
	}{
		{"a result", final, "final map[wait:12]", 0},
		{"what was measured so far", `echo '{"measurement":{"stepCount":"2","metrics":{"wait":20}}}'; echo; ` + final,
			"2:map[wait:20] final map[wait:12]", 0},
		{"the request", `read line; n=$(echo "$line" | sed 's/.*"n": *\([0-9]*\).*/\1/')
			echo "{\"finalMeasurement\":{\"metrics\":{\"wait\":$n}}}"`, "final map[wait:7]", 0},
		{"infeasible", `echo '{"infeasibleReason":"too large"}'`, "infeasible too large", 0},
		{"no result", `:`, "failure it ended without a result", 0},
		{"no JSON", `echo; echo hello`, "failure line 2 of its output: ", 0},
		{"an unknown field", `echo '{"result":1}'`, "failure line 1 of its output: ", 0},
		{"an empty step", `echo '{}'`, "failure line 1 of its output: a step says nothing", 0},

		{"more after the result", final + ";" + final, "failure line 2 of its output: there is more", 0},
		{"exit status", `echo no node is free >&2; exit 3`, "failure exit status 3: no node is free", 0},
		{"a result and exit status", final + `; exit 1`, "failure exit status 1", 0},
		{"a long line", `head -c 2000000 /dev/zero | tr '\0' 'x'`, "failure line 1 of its output: ", 0},
		{"the deadline", `sleep 1000`, "failure not done within 200ms", 200 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := &Evaluator{ID: "a", Command: []string{"sh", "-c", c.script}, Deadline: c.deadline}
			if err := e.check(); err != nil {
				t.Fatal(err)
			}
			if got, err := steps(e, nil); err != nil || !strings.HasPrefix(got, c.want) {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
}

// The children of a killed command are killed, too, and the end of its errors is kept.
func TestCommandIsKilled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pid")
	e := &Evaluator{ID: "a", Command: []string{"sh", "-c", `sleep 1000 & echo $! >"$0"; ` +
		`echo '{"measurement":{"stepCount":"1","metrics":{}}}'; wait`, path}}
	if err := e.check(); err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	if _, err := steps(e, stop); !errors.Is(err, stop) {
		t.Errorf("the error of a step became %v", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if state, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); strings.Contains(string(state), ") Z ") {
			break // its parent has yet to wait for it
		}
		if time.Now().After(deadline) {
			t.Fatal("what the command started still runs")
		}
	}
	var end tail
	var said strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&said, "%d ", i)
	}
	// As the output of a program is copied.
	if _, err := io.Copy(&end, struct{ io.Reader }{strings.NewReader(said.String())}); err != nil ||
		len(end.text) != maxError || !strings.HasSuffix(string(end.text), " 999 ") {
		t.Errorf("kept %d (%v): %q", len(end.text), err, end.text)
	}
}

func TestCommandIsMissing(t *testing.T) {
	t.Parallel()
	e := &Evaluator{ID: "a", Command: []string{"/nowhere/measure"}}
	if err := e.check(); err != nil {
		t.Fatal(err)
	}
	if said, err := steps(e, nil); !errors.Is(err, ErrUnavailable) || said != "" {
		t.Errorf("%q, %v", said, err)
	}
}

type service struct {
	pb.UnimplementedEvaluatorServiceServer
	serve atomic.Pointer[func(*pb.EvaluateRequest, grpc.ServerStreamingServer[pb.EvaluateResponse]) error]
}

func (s *service) Evaluate(r *pb.EvaluateRequest, to grpc.ServerStreamingServer[pb.EvaluateResponse]) error {
	return (*s.serve.Load())(r, to)
}

func TestService(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var s service
	server := grpc.NewServer()
	pb.RegisterEvaluatorServiceServer(server, &s)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	e := &Evaluator{ID: "a", Endpoint: client.Endpoint{Address: listener.Addr().String()}}
	if err := errors.Join(e.check(), e.Open()); err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	measured := func(v float64) *pb.Measurement { return &pb.Measurement{Metrics: map[string]float64{"wait": v}} }
	for _, c := range []struct {
		name, want string
		is         error
		serve      func(*pb.EvaluateRequest, grpc.ServerStreamingServer[pb.EvaluateResponse]) error
	}{
		{"a result", "0:map[wait:9] final map[wait:7]", nil,
			func(r *pb.EvaluateRequest, to grpc.ServerStreamingServer[pb.EvaluateResponse]) error {
				_ = to.Send(&pb.EvaluateResponse{Step: &pb.EvaluateResponse_Measurement{Measurement: measured(9)}})
				v := r.GetParameters()["n"].GetNumberValue()
				final := &pb.EvaluateResponse_FinalMeasurement{FinalMeasurement: measured(v)}
				return to.Send(&pb.EvaluateResponse{Step: final})
			}},
		{"a failure", "failure Internal: out of nodes", nil,
			func(*pb.EvaluateRequest, grpc.ServerStreamingServer[pb.EvaluateResponse]) error {
				return status.Error(codes.Internal, "out of nodes")
			}},
		{"not available", "", ErrUnavailable,
			func(*pb.EvaluateRequest, grpc.ServerStreamingServer[pb.EvaluateResponse]) error {
				return status.Error(codes.Unavailable, "restarting")
			}},
		{"the deadline", "failure not done within 300ms", nil,
			func(_ *pb.EvaluateRequest, to grpc.ServerStreamingServer[pb.EvaluateResponse]) error {
				<-to.Context().Done()
				return to.Context().Err()
			}},
		{"no result", "failure it ended without a result", nil,
			func(*pb.EvaluateRequest, grpc.ServerStreamingServer[pb.EvaluateResponse]) error { return nil }},
	} {
		s.serve.Store(&c.serve)
		if e.Deadline = time.Minute; c.name == "the deadline" {
			e.Deadline = 300 * time.Millisecond
		}
		if got, err := steps(e, nil); got != c.want || !errors.Is(err, c.is) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("evaluators:\n  - {id: a, command: [a, b], deadline: 30s}\n")
	f.Add("evaluators:\n  - {id: b, address: '127.0.0.1:1', schedulers: [x]}\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parse([]byte(text))
		if err != nil {
			return
		}
		for _, e := range all {
			if e.Trials < 1 || e.Deadline <= 0 || (len(e.Command) > 0) == (e.Address != "") {
				t.Errorf("%+v", e)
			}
		}
	})
}
