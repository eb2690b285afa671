package paper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// liveTrials of each study, on an emulated cluster that runs at liveSpeedup times real time.
const (
	liveTrials  = 30
	liveSpeedup = "1000000"
)

// Live is studies of a running service with and without the causal model. Their trials are measured on an emulated
// cluster that runs beside it.
type Live struct {
	Jobs int `json:"jobs"`
	// Without and With are the average JCTs of the trials in order, Skipped the proposals that the model rejected.
	Without []float64 `json:"avg_jct_s_without"`
	With    []float64 `json:"avg_jct_s_with"`
	Skipped int       `json:"skipped"`
}

// serviceProgram names autosched beside this program as what a unit needs.
const serviceProgram = "autosched"

func serviceProgramPath() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return filepath.Join(filepath.Dir(path), serviceProgram)
}

func liveUnits() []Unit {
	return []Unit{{Experiment: "rejection", Name: "live", Peer: serviceProgram, Seed: 1, Rank: 4, Seconds: 100,
		measure: func(ctx context.Context, _ *Data) (any, map[string]float64, error) { return measureLive(ctx) }}}
}

// liveService is a service in a folder of its own, which the program's commands talk to.
type liveService struct {
	program, address string
	jobs             int
}

func measureLive(ctx context.Context) (_ any, _ map[string]float64, err error) {
	dir, err := os.MkdirTemp("", "live")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	s := liveService{program: serviceProgramPath(), address: free.Addr().String()}
	if err := free.Close(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	serve := exec.CommandContext(ctx, s.program, "serve", "--dir", dir, "--listen", s.address)
	serve.Cancel = func() error { return serve.Process.Signal(os.Interrupt) }
	if err := serve.Start(); err != nil {
		cancel()
		return nil, nil, err
	}
	defer func() {
		cancel()
		_ = serve.Wait() // was interrupted
	}()
	for n := 0; s.run(ctx, nil, "scheduler", "list") != nil; n++ {
		if n == 100 {
			return nil, nil, errors.New("the service does not answer")
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err := s.register(ctx, "live", nil); err != nil {
		return nil, nil, err
	}
	var got Live
	began := time.Now()
	if got.Without, _, err = s.study(ctx, "off"); err != nil {
		return nil, nil, err
	}
	without := time.Since(began)
	began = time.Now()
	if got.With, got.Skipped, err = s.study(ctx, "on"); err != nil {
		return nil, nil, err
	}
	got.Jobs = s.jobs
	return &got, map[string]float64{"with_over_without": round3(time.Since(began).Seconds() / without.Seconds())}, nil
}

// run runs a command of the program; out, if set, gets its JSON.
func (s *liveService) run(ctx context.Context, out any, args ...string) error {
	args = append(args, "--server", s.address, "--json")
	cmd := exec.CommandContext(ctx, s.program, args...)
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(text))
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

// register registers a scheduler that holds a configuration: no round is due while it runs.
func (s *liveService) register(ctx context.Context, id string, set []string) error {
	args := []string{"scheduler", "register", "--id", id, "--builtin", "tiresias", "--nodes", "20", "--gpus-per-node", "8",
		"--mode", "recommend", "--interval", "168h"}
	for _, v := range set {
		args = append(args, "--set", v)
	}
	return s.run(ctx, nil, args...)
}

// study runs a study to its end; it returns the average JCTs of the trials and the number that the model rejected.
func (s *liveService) study(ctx context.Context, causal string) (jcts []float64, skipped int, err error) {
	name := "live/" + causal
	if err := s.run(ctx, nil, "study", "create", name, "--trial-budget", fmt.Sprint(liveTrials), "--causal", causal,
		"--metric", "avg_jct", "--seed", "1"); err != nil {
		return nil, 0, err
	}
	for len(jcts) < liveTrials {
		var asked struct {
			Trials []struct {
				Name       string
				Parameters map[string]any
			}
		}
		if err := s.run(ctx, &asked, "study", "trial", "ask", name, "--client", "lab"); err != nil {
			return nil, 0, err
		}
		if len(asked.Trials) == 0 {
			break
		}
		t := &asked.Trials[0]
		var set []string
		for id, v := range t.Parameters {
			set = append(set, id+"="+strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ","), "[]"))
		}
		slices.Sort(set)
		id := fmt.Sprintf("%s-%d", causal, len(jcts)+1)
		if err := s.register(ctx, id, set); err != nil {
			return nil, 0, err
		}
		var ran struct {
			Jobs int     `json:"jobs"`
			JCT  float64 `json:"avg_jct_s"`
		}
		if err := s.run(ctx, &ran, "scheduler", "emulate", "--trace", "sample", "--nodes", "20", "--gpus-per-node", "8",
			"--id", id, "--mode", "recommend", "--interval", "168h", "--speedup", liveSpeedup); err != nil {
			return nil, 0, err
		}
		jcts, s.jobs = append(jcts, roundTo(ran.JCT, 3)), ran.Jobs
		_, number, _ := strings.Cut(t.Name, "/trials/")
		if err := s.run(ctx, nil, "study", "trial", "tell", name+"/"+number,
			fmt.Sprintf("avg_jct=%g", ran.JCT)); err != nil {
			return nil, 0, err
		}
	}
	var listed struct{ Trials []struct{ State string } }
	if err := s.run(ctx, &listed, "study", "trial", "list", name); err != nil {
		return nil, 0, err
	}
	for _, t := range listed.Trials {
		if t.State == "SKIPPED" {
			skipped++
		}
	}
	return jcts, skipped, nil
}

// until is the number of trials until one is within 1 % of a best, and whether one is.
func until(jcts []float64, best float64) (n int, found bool) {
	i := slices.IndexFunc(jcts, func(v float64) bool { return v <= 1.01*best })
	if i < 0 {
		return len(jcts), false
	}
	return i + 1, true
}

// live is the run of studies on an emulated cluster.
func (p *page) live() {
	x := read[Live](&p.results, "rejection/live")
	if x == nil || len(x.Without) == 0 || len(x.With) == 0 {
		return
	}
	best := min(slices.Min(x.Without), slices.Min(x.With))
	text := func(jcts []float64) string {
		n, found := until(jcts, best)
		if !found {
			return fmt.Sprintf("not within %d", n)
		}
		return fmt.Sprintf("at trial %d", n)
	}
	same := ""
	if slices.Equal(x.Without, x.With) {
		same = " Both measure the same configurations, so that this is the machine's."
	}
	p.printf("\nLive, one run: a service runs, and a trial registers a scheduler with it and has an emulated cluster of 20 "+
		"nodes run the %d\njobs of the built-in sample under Tiresias at %s times real time. A JCT within 1 %% of the best of "+
		"both studies of %d trials\nis found %s without the causal model and %s with it, which rejects %d proposals; the time "+
		"of the whole study with it\nover that without is %.2f.%s\n", x.Jobs, liveSpeedup, liveTrials, text(x.Without),
		text(x.With), x.Skipped, p.all["rejection/live"].Times["with_over_without"], same)
}
