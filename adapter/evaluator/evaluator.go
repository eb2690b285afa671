// Package evaluator measures configurations for studies that the service runs: by a command, or by a service
// that implements EvaluatorService. Both are named in a file of the service's own; callers know their ids alone.
package evaluator

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/internal/program"
)

// Evaluator measures configurations, by its Command or at its Endpoint.
type Evaluator struct {
	ID string `yaml:"id"`
	// Schedulers are the schedulers whose studies it may measure; all if empty.
	Schedulers []string `yaml:"schedulers"`
	// Command is a program with its arguments. It is not run by a shell.
	Command []string `yaml:"command"`
	// Directory is where the command runs; that of the service if empty.
	Directory string `yaml:"directory"`
	// Endpoint is where the service answers.
	client.Endpoint `yaml:",inline"`
	// AllowPlaintext lets an address other than loopback be called unencrypted.
	AllowPlaintext bool `yaml:"allow-plaintext"`
	// Deadline bounds the measuring of a trial, which has failed then; 10 min if 0.
	Deadline time.Duration `yaml:"deadline"`
	// Trials is how many trials it measures at a time; 1 if 0.
	Trials int `yaml:"parallel-trials"`
	// Jobs is the directory of the files of jobs that commands read, made if there is none; the directory of temporary
	// files if empty. The caller must remove the files that a kill leaves there.
	Jobs string `yaml:"-"`

	conn *grpc.ClientConn
}

const (
	defaultDeadline = 10 * time.Minute
	maxTrials       = 100
)

var idForm = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Read reads a YAML file of evaluators:
//
//	evaluators:
//	  - id: testbed
//	    command: [/opt/testbed/measure, short]
//	    deadline: 30m
//	    parallel-trials: 4
//	  - id: simulator
//	    address: simulator.example.org:7600
//	    tls-ca: pki/ca.pem
//	    schedulers: [prod]
//
// Unknown fields and two evaluators of one id are errors, which name the line.
func Read(path string) ([]*Evaluator, error) {
	text, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	all, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

func parse(text []byte) ([]*Evaluator, error) {
	var file struct {
		Evaluators []*Evaluator `yaml:"evaluators"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(file.Evaluators) == 0 {
		return nil, errors.New("has no evaluators: name at least one under evaluators")
	}
	var nodes struct {
		Evaluators []yaml.Node `yaml:"evaluators"`
	}
	if err := yaml.Unmarshal(text, &nodes); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for i, e := range file.Evaluators {
		err := errors.New("it is empty")
		if e != nil {
			err = e.check()
		}
		if err == nil && seen[e.ID] {
			err = fmt.Errorf("id: %q is another evaluator's, too", e.ID)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: evaluators[%d]: %w", nodes.Evaluators[i].Line, i, err)
		}
		seen[e.ID] = true
	}
	return file.Evaluators, nil
}

// check checks the fields and sets defaults.
func (e *Evaluator) check() error {
	switch {
	case !idForm.MatchString(e.ID):
		return fmt.Errorf("id: %q is not 1 to 63 of a-z, 0-9 and '-', starting with a letter and not ending with '-'",
			e.ID)
	case (len(e.Command) == 0) == (e.Address == ""):
		return errors.New("command and address: want one of them")
	case len(e.Command) > 0 && e.Command[0] == "":
		return errors.New("command: the program is empty")
	case len(e.Command) > 0 && e.Endpoint != (client.Endpoint{}):
		return errors.New("command: takes no tls-ca, tls-cert, tls-key or token-file")
	case len(e.Command) == 0 && e.Directory != "":
		return errors.New("directory: is of a command")
	case e.Deadline < 0:
		return fmt.Errorf("deadline: %v is negative", e.Deadline)
	case e.Trials < 0 || e.Trials > maxTrials:
		return fmt.Errorf("parallel-trials: %d is not from 1 to %d", e.Trials, maxTrials)
	}
	if e.Address != "" {
		if err := e.CheckCalled(e.AllowPlaintext); err != nil {
			return err
		}
	}
	e.Deadline, e.Trials = cmp.Or(e.Deadline, defaultDeadline), cmp.Or(e.Trials, 1)
	return nil
}

// Open makes an evaluator ready. It calls nothing.
func (e *Evaluator) Open() (err error) {
	if e.Address != "" {
		e.conn, err = e.Dial()
	}
	return err
}

// Close closes the connection.
func (e *Evaluator) Close() error {
	if e.conn == nil {
		return nil
	}
	return e.conn.Close()
}

// Serves reports whether it may measure studies of a scheduler.
func (e *Evaluator) Serves(scheduler string) bool {
	return len(e.Schedulers) == 0 || slices.Contains(e.Schedulers, scheduler)
}

// Parallel is how many trials it measures at a time.
func (e *Evaluator) Parallel() int { return e.Trials }

// Describe is its description for callers.
func (e *Evaluator) Describe() (kind string, deadline time.Duration) {
	if e.Address != "" {
		return "service", e.Deadline
	}
	return "command", e.Deadline
}

// Evaluate measures a configuration. Each step goes to step, the last one is a result; an error of step ends the
// evaluation and is returned. ErrUnavailable is wrapped if nothing can be measured now. A fault of
// this configuration, the deadline included, is a result, too: a failure.
func (e *Evaluator) Evaluate(ctx context.Context, req *pb.EvaluateRequest,
	step func(*pb.EvaluateResponse) error) error {
	late := fmt.Errorf("not done within %v", e.Deadline)
	within, cancel := context.WithTimeoutCause(ctx, e.Deadline, late)
	defer cancel()
	var result *pb.EvaluateResponse
	one := func(r *pb.EvaluateResponse) error {
		if result != nil {
			return errors.New("there is more after the result")
		}
		if r.GetMeasurement() == nil {
			if r.GetStep() == nil {
				return errors.New("a step says nothing")
			}
			result = r
			return nil
		}
		if err := step(r); err != nil {
			return &stepError{err}
		}
		return nil
	}
	measure := e.call
	if len(e.Command) > 0 {
		measure = e.run
	}
	err := measure(within, req, one)
	if refused := (*stepError)(nil); errors.As(err, &refused) {
		return refused.error
	}
	switch {
	case err == nil && result != nil:
	case ctx.Err() != nil:
		return ctx.Err()
	case within.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		err = late
	case errors.Is(err, ErrUnavailable):
		return err
	case err == nil && result == nil:
		err = errors.New("it ended without a result")
	}
	if err != nil {
		result = &pb.EvaluateResponse{Step: &pb.EvaluateResponse_Failure{Failure: err.Error()}}
	}
	return step(result)
}

// ErrUnavailable says that an evaluator can measure nothing now.
var ErrUnavailable = errors.New("the evaluator is not available")

// stepError is the error of the receiver of steps.
type stepError struct{ error }

// call calls the service. It waits for a connection: a service may be restarting.
func (e *Evaluator) call(ctx context.Context, req *pb.EvaluateRequest, step func(*pb.EvaluateResponse) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream
	stream, err := pb.NewEvaluatorServiceClient(e.conn).Evaluate(ctx, req)
	for err == nil {
		var r *pb.EvaluateResponse
		if r, err = stream.Recv(); err == nil {
			err = step(r)
		}
	}
	switch s, ok := status.FromError(err); {
	case errors.Is(err, io.EOF):
		return nil
	case !ok:
		return err
	case s.Code() == codes.Unavailable || s.Code() == codes.Unauthenticated || s.Code() == codes.PermissionDenied ||
		s.Code() == codes.Unimplemented:
		return fmt.Errorf("%w: %s: %s", ErrUnavailable, s.Code(), s.Message())
	case s.Code() == codes.DeadlineExceeded:
		return context.DeadlineExceeded
	default:
		return fmt.Errorf("%s: %s", s.Code(), s.Message())
	}
}

// Limits of a command's output.
const (
	maxLine  = 1 << 20 // bytes of a line of its standard output
	maxError = 512     // bytes of the end of its standard error that are kept
)

// run runs the command: a line of JSON is its input, each line of its output is a step. When the context ends it
// is killed with all that it started.
func (e *Evaluator) run(ctx context.Context, req *pb.EvaluateRequest, step func(*pb.EvaluateResponse) error) error {
	if len(req.GetWorkloadJobs()) > 0 {
		file, err := jobsFile(e.Jobs, req.GetWorkloadJobs())
		if err != nil {
			return fmt.Errorf("%w: jobs of the workload: %w", ErrUnavailable, err)
		}
		defer os.Remove(file)
		req = proto.Clone(req).(*pb.EvaluateRequest)
		req.WorkloadJobs, req.WorkloadFile = nil, file
	}
	in, err := protojson.Marshal(req)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var errs tail
	cmd := program.Command(ctx, e.Command)
	cmd.Dir, cmd.Stdin, cmd.Stderr = e.Directory, bytes.NewReader(append(in, '\n')), &errs
	r, w := io.Pipe()
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	steps := make(chan error, 1)
	go func() {
		err := read(r, step)
		_ = r.CloseWithError(err) // output after an error ends the command
		if err != nil {
			cancel()
		}
		steps <- err
	}()
	err = cmd.Wait()
	_ = w.Close()
	if said := <-steps; said != nil {
		return said
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(errs.text)))
	}
	return nil
}

// jobsFile writes jobs that gzip compressed into a file of its own in a directory.
func jobsFile(dir string, jobs []byte) (path string, err error) {
	if dir != "" { // for a command that runs elsewhere
		if dir, err = filepath.Abs(dir); err == nil {
			err = os.MkdirAll(dir, 0o700)
		}
		if err != nil {
			return "", err
		}
	}
	in, err := gzip.NewReader(bytes.NewReader(jobs))
	if err != nil {
		return "", err
	}
	out, err := os.CreateTemp(dir, "autosched-workload-*.csv")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		err = errors.Join(err, os.Remove(out.Name()))
	}
	return out.Name(), err
}

// read reads steps, one on a line.
func read(r io.Reader, step func(*pb.EvaluateResponse) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		n++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var one pb.EvaluateResponse
		if err := protojson.Unmarshal(lines.Bytes(), &one); err != nil {
			return fmt.Errorf("line %d of its output: %w", n, err)
		}
		if err := step(&one); err != nil {
			return fmt.Errorf("line %d of its output: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d of its output: %w", n+1, err)
	}
	return nil
}

// tail keeps the end of the text written to it.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-maxError):]
	return len(p), nil
}
