package evaluator

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/program"
)

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
