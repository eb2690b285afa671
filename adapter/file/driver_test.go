package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/autosched/autosched/adapter"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/schedulers/native"
)

// scheduler is one that has a configuration file: a script that reads it on reload, refuses 5 queues, hangs on 6 and
// takes 3 for 4, and prints its values.
type scheduler struct {
	t    *testing.T
	dir  string
	file string
	o    Options
}

const script = `
case $1 in
reload)
	grep -q 'num_queue: 5' $2 && { echo "five is too many" >&2; exit 1; }
	grep -q 'num_queue: 6' $2 && sleep 1000
	sed 's/num_queue: 4/num_queue: 3/; s/, 9000/ /' $2 >$3.new && mv $3.new $3; echo >>$3.reloads;;
show) cat $3;;
check) ! grep -q 'num_queue: 2' $2;;
esac
`

func newScheduler(t *testing.T) *scheduler {
	dir := t.TempDir()
	s := &scheduler{t: t, dir: dir, file: filepath.Join(dir, "tiresias.yaml")}
	path := filepath.Join(dir, "script")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(what string) []string { return []string{"sh", path, what, "{file}", filepath.Join(dir, "runs")} }
	s.o = Options{Path: s.file, Form: schedulers.FormOf("tiresias"), Check: run("check"), Reload: run("reload"),
		ReadBack: run("show")}
	return s
}

// open is a driver, as after a start.
func (s *scheduler) open() *Driver {
	s.t.Helper()
	d, err := Open(s.o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = d.Close() })
	return d
}

// config is a configuration with a number of queues.
func config(t *testing.T, revision int64, queues int) *pb.Configuration {
	t.Helper()
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	thresholds := strings.Join([]string{"3250", "7200", "9000", "10000", "11000"}[:queues-1], ",")
	c, err := s.Space.Parse(s.Space.Default(),
		[]string{fmt.Sprint("queues=", queues), "queue_thresholds=" + thresholds})
	if err != nil {
		t.Fatal(err)
	}
	parameters, err := adapter.ToProto(native.ValuesOf(c))
	if err != nil {
		t.Fatal(err)
	}
	return &pb.Configuration{Name: fmt.Sprint("schedulers/x/configurations/", revision), Revision: revision,
		Epoch: &pb.Epoch{Id: "e", Counter: 1}, ContentHash: c.Hash(), Parameters: parameters}
}

// queuesOf is the number of queues in a text of the scheduler.
func queuesOf(text []byte) string {
	_, rest, _ := strings.Cut(string(text), "num_queue: ")
	n, _, _ := strings.Cut(rest, "\n")
	return n
}

func (s *scheduler) has(file, runs string) {
	s.t.Helper()
	for _, at := range []struct{ path, want string }{{s.file, file}, {filepath.Join(s.dir, "runs"), runs}} {
		text, _ := os.ReadFile(at.path)
		if _, err := s.o.Form.Parse(text); len(text) > 0 && err != nil {
			s.t.Fatalf("%s: %v", at.path, err)
		}
		if got := queuesOf(text); got != at.want {
			s.t.Fatalf("%s has %q queues, want %q", at.path, got, at.want)
		}
	}
}

// apply applies a number of queues, and wants a part of an error; a leading "refused" is one about the values.
func (s *scheduler) apply(d *Driver, revision int64, queues int, want string) map[string]*structpb.Value {
	s.t.Helper()
	got, err := d.Apply(s.t.Context(), config(s.t, revision, queues))
	text, refused := strings.CutPrefix(want, "refused ")
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), text) ||
		errors.Is(err, client.ErrRefused) != refused) {
		s.t.Fatalf("revision %d of %d queues: %v, want %q", revision, queues, err, want)
	}
	return got
}

// TestApply: a configuration is written, reloaded and read back; a configuration that the scheduler or the check
// refuses, that hangs, or that cannot be read back is not left in force.
func TestApply(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	d := s.open()
	if got := s.apply(d, 1, 3, ""); got["queues"].GetNumberValue() != 3 || len(got) != 6 {
		t.Errorf("in force is %v", got)
	}
	s.has("3", "3")
	s.apply(d, 2, 2, "refused check: ") // never reached the file
	s.has("3", "3")
	s.apply(d, 3, 5, "refused reload: sh: exit status 1: five is too many")
	s.has("3", "3")
	d.o.Timeout = 5 * time.Second
	s.apply(d, 4, 6, "reload: sh: not done within 5s")
	d.o.Timeout = time.Minute
	s.has("3", "3")
	s.apply(d, 5, 4, "the values before are still in force")
	s.has("3", "3")
	s.apply(d, 6, 1, "")
	s.has("1", "1")
	if got := s.apply(d, 7, 4, ""); got["queues"].GetNumberValue() != 3 {
		t.Errorf("in force is %v, want what was read back", got)
	}
	s.has("4", "3")
	reloads := func() int {
		text, _ := os.ReadFile(filepath.Join(s.dir, "runs.reloads"))
		return len(text)
	}
	n := reloads()
	s.apply(d, 8, 4, "") // the same values under another number
	if reloads() != n || d.note.InForce.Revision != 8 {
		t.Errorf("%d reloads of what is in force", reloads()-n)
	}
	d.o.ReadBack = []string{"false"}
	s.apply(d, 9, 1, "read back: false: exit status 1")
	s.has("4", "3")
	d.o.ReadBack = []string{"echo", "num_queue: 1"}
	s.apply(d, 10, 1, "read back: order is missing")
	d.o.Reload = []string{filepath.Join(s.dir, "none")}
	s.apply(d, 11, 1, "and the previous file could not be put back in force")
	d.o.Form = schedulers.FormOf("themis")
	s.apply(d, 12, 1, "render: ")
	d.note.InForce.EpochCounter = 2
	s.apply(d, 13, 1, "is of epoch 1 of the store, before 2")
}

// TestReloadLeavesProcess: a reload command that succeeds and leaves a process with its output open, as a
// restart of a scheduler does, is no failure.
func TestReloadLeavesProcess(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	left := filepath.Join(s.dir, "left")
	s.o.Reload = []string{"sh", "-c", `sh "$0" reload "$1" "$2"; sleep 1000 & echo $! >"$3"`, filepath.Join(s.dir, "script"),
		"{file}", filepath.Join(s.dir, "runs"), left}
	t.Cleanup(func() {
		text, _ := os.ReadFile(left)
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	s.apply(s.open(), 1, 3, "")
	s.has("3", "3")
}

// TestFirstFileIsRemoved: if the scheduler does not take the first file, there is none again. It may not be up.
func TestFirstFileIsRemoved(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	d := s.open()
	s.apply(d, 1, 5, "there was no file before, and is none now")
	s.has("", "")
	s.apply(d, 2, 3, "")
	s.has("3", "3")
}

// TestChangedFile: a file that someone else wrote is reported, and replaced only if that is asked for.
func TestChangedFile(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	write := func(queues int, comment string) {
		t.Helper()
		values, err := adapter.FromProto(config(t, 0, queues).Parameters)
		if err != nil {
			t.Fatal(err)
		}
		text, err := s.o.Form.Render(values)
		if err == nil {
			err = os.WriteFile(s.file, append([]byte(comment), text...), 0o640)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	look := func(d *Driver, want pb.Acknowledgement_State, text string) {
		t.Helper()
		req, _, reported := d.Look(t.Context())
		if got := req.GetAcknowledgement(); got.GetState() != want || !strings.Contains(got.GetError(), text) ||
			want != 0 && (req.GetName() != "schedulers/x/configurations/3" || req.GetEpoch().GetId() != "e") {
			t.Fatalf("acknowledges %v, want %v", req, want)
		}
		if req != nil {
			reported()
		}
	}
	write(1, "")
	d := s.open()
	s.apply(d, 1, 3, "put it back, or start the adapter once with --take-over")
	s.has("1", "")
	_ = d.Close()
	s.o.TakeOver = true
	d = s.open()
	s.apply(d, 2, 5, "refused ")
	s.has("1", "1") // back to the one that was there
	s.apply(d, 3, 3, "")
	s.has("3", "3")
	if info, err := os.Stat(s.file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	look(d, 0, "")

	d.o.ReadBack = nil // the scheduler runs the file's values
	write(1, "")
	look(d, pb.Acknowledgement_PARTIALLY_APPLIED, "changed by someone else")
	look(d, 0, "")
	s.apply(d, 4, 2, "changed by someone else")
	write(3, "# mine\n")
	look(d, pb.Acknowledgement_APPLIED, "")
	s.apply(d, 4, 1, "changed by someone else")
	write(3, "")
	look(d, pb.Acknowledgement_APPLIED, "")
	look(d, 0, "")
	if err := os.Remove(s.file); err != nil {
		t.Fatal(err)
	}
	look(d, pb.Acknowledgement_FAILED, "cannot be read: read back: ")
	look(d, 0, "") // which is reported once
	s.apply(d, 4, 1, "changed by someone else")
	write(3, "")
	look(d, pb.Acknowledgement_APPLIED, "")
	s.apply(d, 4, 1, "")
	s.has("1", "1")
}

// crash is the end of the process at a step.
type crash struct{}

func (s *scheduler) crashAt(d *Driver, step string, c *pb.Configuration) (reached bool) {
	d.step = func(at string) {
		if at == step {
			panic(crash{})
		}
	}
	defer func() {
		_ = d.Close() // as the end of a process does
		if at := recover(); at != nil {
			if _, ok := at.(crash); !ok {
				panic(at)
			}
			reached = true
		}
	}()
	_, _ = d.Apply(context.Background(), c)
	return false
}

// TestCrashes: after the end of the process at any step, the file is whole, and the next process gets to the
// right outcome, whatever it is offered then.
func TestCrashes(t *testing.T) {
	t.Parallel()
	type offer struct {
		queues int
		want   string
		runs   string
	}
	for _, first := range []struct {
		offer
		steps []string
	}{
		{offer{1, "", "1"}, []string{"checked", "kept", "noted", "written", "reloaded", "read", "done"}},
		{offer{5, "refused ", "3"}, []string{"written", "restored"}},
	} {
		for _, step := range first.steps {
			for _, next := range []offer{first.offer, {3, "", "3"}, {4, "", "3"}} {
				s := newScheduler(t)
				s.o.Check = []string{"true"}
				d := s.open()
				s.apply(d, 1, 3, "")
				if !s.crashAt(d, step, config(t, 2, first.queues)) {
					t.Fatalf("step %s is not reached", step)
				}
				text, err := os.ReadFile(s.file)
				if q := queuesOf(text); err != nil || q != "3" && q != fmt.Sprint(first.queues) {
					t.Fatalf("after %s: %v, %s", step, err, text)
				}
				if step == "written" { // and again, within the next start
					d := s.open()
					if !s.crashAt(d, step, config(t, 3, 2)) {
						t.Fatal("not reached")
					}
				}
				d = s.open()
				if d.note.InForce.Name == "" {
					t.Fatal("what was in force is forgotten")
				}
				want := next.want
				if next.queues == 4 && step != "done" {
					// The scheduler reads it as the values in force before.
					want = "the values before are still in force"
				}
				s.apply(d, 4, next.queues, want)
				runs, _ := os.ReadFile(filepath.Join(s.dir, "runs"))
				if got := queuesOf(runs); got != next.runs {
					t.Fatalf("after %s and %d queues the scheduler runs %s", step, next.queues, got)
				}
				s.apply(d, 5, 1, "")
				s.has("1", "1")
				_ = d.Close()
			}
		}
	}
}

// TestOpen: a fault of the options is named, and two drivers cannot have one file.
func TestOpen(t *testing.T) {
	s := newScheduler(t)
	for want, change := range map[string]func(*Options){
		"file: is missing":                func(o *Options) { o.Path = "" },
		"form: is missing":                func(o *Options) { o.Form = nil },
		"timeout: -1s":                    func(o *Options) { o.Timeout = -time.Second },
		"reload: the program is missing":  func(o *Options) { o.Reload = []string{""} },
		"there is no such directory":      func(o *Options) { o.Path = filepath.Join(s.dir, "none", "x") },
		"state-dir: mkdir":                func(o *Options) { o.Dir = filepath.Join(s.dir, "script", "x") },
		"state.json: unexpected end of J": func(o *Options) { o.Dir = filepath.Join(s.dir, "damaged") },
	} {
		if strings.Contains(want, "JSON") || strings.HasPrefix(want, "state.json") {
			if err := os.MkdirAll(filepath.Join(s.dir, "damaged"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(s.dir, "damaged", "state.json"), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		o := s.o
		change(&o)
		if _, err := Open(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	d := s.open()
	if _, err := Open(s.o); err == nil || !strings.Contains(err.Error(), "in use by another adapter") {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	s.open()
}

// TestClosed: a closed driver leaves the file to the next one.
func TestClosed(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	d := s.open()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	s.apply(s.open(), 1, 3, "")
	s.apply(d, 2, 4, fs.ErrClosed.Error())
	s.has("3", "3")
}
