package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/autosched/autosched/adapter/slurm/slurmtest"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// siteLines are settings as sites have them, with short spans as the jobs are short.
const siteLines = `PriorityDecayHalfLife=0-00:05:00
PriorityMaxAge=0-00:10:00
PriorityWeightAge=2000
PriorityWeightFairshare=10000
PriorityWeightJobSize=1000
PriorityWeightQOS=3000
PriorityWeightTRES=GRES/gpu=1500
` + siteIntervals

const siteIntervals = "SchedulerParameters=bf_interval=5,bf_resolution=10,bf_window=120,sched_interval=10\n"

// fixedLines are the lines of slurm.conf that are not tuned.
const fixedLines = "PriorityCalcPeriod=1"

// objective is the mean wait, and no account may lose more than a tenth and 15 s of its p95.
const objective = "avg_queue subject to tenant_p95_queue<=1.1*incumbent+15s"

// intervals keep the site's values.
var intervals = []string{"bf_interval", "sched_interval", "bf_resolution", "bf_window"}

// lane is a run under way.
type lane struct {
	*options
	*slurmtest.Cluster
	dir   string
	site  *conf.Site
	form  conf.Form
	began time.Time // the first submission
}

// run makes a run.
func (o *options) run(ctx context.Context, from, then []workload.Job, seed uint64, arm string) (_ *result, err error) {
	var chosen *windows
	if then != nil {
		chosen, err = o.regime(from, then, seed)
	} else {
		chosen, err = choose(from, o.jobs, historyRuns, o.span, o.load, int(seed), o.seeds)
	}
	if err != nil {
		return nil, err
	}
	include := siteLines
	switch arm {
	case "default":
		include = "" // Slurm's own with priority/multifactor
	case "intervals":
		include = siteIntervals
	}
	c, err := o.start(ctx, slurmtest.Options{Nodes: nodes, Conf: fixedLines, Include: include, Accounts: accounts,
		QOS: map[string]int{"high": 100, "normal": 50, "low": 0}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	l := &lane{options: o, Cluster: c}
	if l.dir, err = os.MkdirTemp("", "slurmpay"); err != nil {
		return nil, err
	}
	defer func() {
		if err == nil {
			os.RemoveAll(l.dir) // the logs of a run that failed stay
		}
	}()
	if err := l.look(ctx); err != nil {
		return nil, err
	}
	r := &result{Seed: seed, Arm: arm}
	var service *service
	var begun func(context.Context, func() map[string]int) func() (string, error)
	switch {
	case arm == "forecast":
		return nil, l.forecast(ctx, chosen)
	case then != nil:
		r.Chosen, begun, err = l.arrange(ctx, arm, chosen)
	default:
		service, err = l.begin(ctx, arm, chosen, r)
	}
	if service != nil {
		defer service.stop()
	}
	if err != nil {
		return nil, err
	}
	changes := l.follow(ctx)
	l.began = time.Now()
	number := &numbers{of: map[string]int{}}
	ended := func() (string, error) { return "", nil }
	during, cancel := context.WithCancel(ctx)
	if begun != nil {
		ended = begun(during, number.copy)
	}
	r.Jobs, err = l.submit(ctx, chosen.run, number)
	cancel()
	said, failed := ended()
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	r.Chosen = strings.Trim(r.Chosen+"; "+said, "; ")
	if service != nil {
		if err := service.alive(l); err != nil {
			return nil, err
		}
	}
	r.Changes = changes()
	if r.Machine, err = l.machine(ctx, chosen.run, r.Jobs); err != nil {
		return nil, err
	}
	for _, j := range r.Jobs {
		r.Wait += j.wait() / float64(len(r.Jobs))
	}
	r.WaitOf, r.Promised, err = promise(ctx, l.site.Cluster, r.Jobs, l.settings, r.Changes)
	return r, err
}

// begin puts the settings of an arm of one workload in force.
func (l *lane) begin(ctx context.Context, arm string, chosen *windows, r *result) (service *service, err error) {
	switch arm {
	case "default", "intervals", "site":
	case "preset":
		r.Chosen, err = l.preset(ctx, chosen.history)
	case "once":
		r.Forecast, err = l.once(ctx, chosen.history)
	case "live":
		service, err = l.live(ctx, chosen.history)
	default:
		err = fmt.Errorf("--arms: %q is none of %s", arm, strings.Join(arms, ", "))
	}
	return service, err
}

// start starts a cluster. They start one after another, as each looks for free ports.
func (o *options) start(ctx context.Context, so slurmtest.Options) (*slurmtest.Cluster, error) {
	o.starting.Lock()
	defer o.starting.Unlock()
	return slurmtest.Start(ctx, so)
}

// look reads the site, as slurm init does.
func (l *lane) look(ctx context.Context) error {
	if _, err := l.call(ctx, "slurm", "init", "--out", l.dir); err != nil {
		return err
	}
	var s conf.Shown
	for i, dst := range []*[]byte{&s.Config, &s.Partitions, &s.Nodes, &s.QOS, &s.Associations} {
		c := conf.Commands[i]
		out, err := l.Run(ctx, c.Args[0], c.Args[1:]...)
		if err != nil {
			return err
		}
		*dst = out
	}
	site, err := s.Site()
	l.site = site
	if err == nil {
		l.form = conf.Form{Tuned: site.Config.Tuned(), Site: site.Config.Site(site.Config.Tuned())}
	}
	return err
}

// call runs AutoSched for the cluster.
func (l *lane) call(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, l.autosched, args...)
	cmd.Env = append(os.Environ(), l.Env()...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return out, err
}

func (l *lane) path(name string) string { return filepath.Join(l.dir, name) }

// settings are the settings of slurmctld with an include file.
func (l *lane) settings(text string) (slurm.Settings, error) {
	s := slurm.Defaults()
	c, err := conf.Read(l.Conf(), func(path string) ([]byte, error) {
		if conf.Real(path) == l.Include() {
			return []byte(text), nil
		}
		return os.ReadFile(path)
	})
	if err == nil {
		err = c.Apply(&s)
	}
	return s, err
}

// remember writes the history as it went under the site's settings, up to now.
func (l *lane) remember(ctx context.Context, history []job) (now time.Time, err error) {
	now = time.Now().UTC().Truncate(time.Second)
	w, err := traced(history, now, l.span)
	if err != nil {
		return now, err
	}
	var csv bytes.Buffer
	if err := trace.WriteCSV(&csv, w); err != nil {
		return now, err
	}
	if err := os.WriteFile(l.path("history.csv"), csv.Bytes(), 0o644); err != nil {
		return now, err
	}
	_, err = l.call(ctx, "simulate", "--trace", l.path("history.csv"), "--cluster", l.path("cluster.json"),
		"--scheduler", "slurm", "--config", l.path("current.yaml"), "--events-out", l.path("events.jsonl"))
	return now, err
}

// preset puts the preset in force that has the least mean wait in the history.
func (l *lane) preset(ctx context.Context, history []job) (name string, err error) {
	if _, err := l.remember(ctx, history); err != nil {
		return "", err
	}
	entry, err := schedulers.Find("slurm")
	if err != nil {
		return "", err
	}
	least := 0.0
	var best space.Config
	for _, p := range entry.Presets {
		out, err := l.call(ctx, "simulate", "--trace", l.path("history.csv"), "--cluster", l.path("cluster.json"),
			"--scheduler", "slurm", "--preset", p.Name, "--json")
		if err != nil {
			return "", err
		}
		var got struct {
			Wait float64 `json:"avg_queue_s"`
		}
		if err := json.Unmarshal(out, &got); err != nil {
			return "", err
		}
		if name == "" || got.Wait < least {
			name, least, best = p.Name, got.Wait, p.Config
		}
	}
	values := space.Values{}
	for _, id := range best.IDs() {
		values[id] = best.Get(id)
	}
	return name, l.apply(ctx, values)
}

// once puts in force the result of a search that simulates the history as it was.
func (l *lane) once(ctx context.Context, history []job) (forecast float64, err error) {
	now, err := l.remember(ctx, history)
	if err != nil {
		return 0, err
	}
	span := historyRuns * l.span
	out, err := l.call(ctx, "tune", "--trace", l.path("history.csv"), "--at", now.Add(-span).Format(time.RFC3339),
		"--horizon", span.String(), "--truth", "--cluster", l.path("cluster.json"), "--scheduler", "slurm",
		"--config", l.path("current.yaml"), "--objective", "avg_queue", "--subject-to", "tenant_p95_queue<=1.1*incumbent+15s", "--budget", "200", "--json")
	if err != nil {
		return 0, err
	}
	type measured struct {
		Objective float64 `json:"objective"`
		Origin    string  `json:"origin"`
	}
	var got struct {
		Adopt       bool           `json:"adopt"`
		Best        map[string]any `json:"best"`
		Recommended measured       `json:"recommended"`
		Trials      []measured     `json:"trials"`
	}
	if err := json.Unmarshal(out, &got); err != nil {
		return 0, err
	}
	if !got.Adopt {
		return 1, nil
	}
	for _, t := range got.Trials {
		if t.Origin == "incumbent" {
			forecast = got.Recommended.Objective / t.Objective
		}
	}
	values := space.Values{}
	for id, v := range got.Best {
		switch v := v.(type) {
		case float64:
			values[id] = space.Num(v)
		case bool:
			values[id] = space.Bool(v)
		default:
			return 0, fmt.Errorf("tune recommends %s=%v", id, v)
		}
	}
	return forecast, l.apply(ctx, values)
}

// apply puts values in force, with the intervals of the site.
func (l *lane) apply(ctx context.Context, values space.Values) error {
	text, err := l.render(values)
	if err != nil {
		return err
	}
	return l.put(ctx, string(text))
}

// render is the file of values, with the intervals of the site.
func (l *lane) render(values space.Values) ([]byte, error) {
	current, err := l.site.Config.Values(l.form.Tuned)
	if err != nil {
		return nil, err
	}
	for _, id := range l.form.Tuned {
		v, there := values[id]
		name, ok := strings.CutPrefix(id, conf.SchedulerParameters+".")
		if there && !(ok && slices.Contains(intervals, name)) {
			current[id] = v
			if negative, ok := values[id+conf.Negative]; ok {
				current[id+conf.Negative] = negative
			}
			if s, _ := conf.Find(id); s.Kind == conf.Weight && v.Float() == 0 {
				delete(current, id+conf.Negative)
			}
		}
	}
	return l.form.Render(current)
}

// put puts a file of settings in force.
func (l *lane) put(ctx context.Context, text string) error {
	if err := os.WriteFile(l.path("tuned.conf"), []byte(text), 0o644); err != nil {
		return err
	}
	_, err := l.call(ctx, "slurm", "apply", l.path("tuned.conf"), "--slurm-conf", l.Conf(), "--log", l.Log())
	return err
}

// service is the service with its adapter.
type service struct {
	running []*exec.Cmd
	logs    []string
}

func (s *service) start(l *lane, name string, args ...string) error {
	cmd := exec.Command(l.autosched, args...)
	cmd.Env = append(os.Environ(), l.Env()...)
	log, err := os.Create(l.path(name + ".log"))
	if err != nil {
		return err
	}
	cmd.Stderr, cmd.Stdout = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }()
	s.running, s.logs = append(s.running, cmd), append(s.logs, name+".log")
	return nil
}

// alive fails if the service or the adapter has ended.
func (s *service) alive(l *lane) error {
	for i, cmd := range s.running {
		if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
			log, _ := os.ReadFile(l.path(s.logs[i]))
			return fmt.Errorf("%s ended: %s", cmd, log)
		}
	}
	return nil
}

func (s *service) stop() {
	for _, cmd := range slices.Backward(s.running) {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		for range 100 {
			if cmd.Process.Signal(syscall.Signal(0)) != nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// live starts the service with the history and the adapter, which tune every three minutes.
func (l *lane) live(ctx context.Context, history []job) (*service, error) {
	if _, err := l.remember(ctx, history); err != nil {
		return nil, err
	}
	s := &service{}
	address := fmt.Sprint("127.0.0.1:", 17000+os.Getpid()%1000+int(time.Now().UnixNano()/1000%1000))
	if err := s.start(l, "serve", "serve", "--dir", l.path("data"), "--listen", address); err != nil {
		return nil, err
	}
	if err := l.register(ctx, address); err != nil {
		return s, err
	}
	return s, s.start(l, "adapter", "slurm", "run", "--allow-anonymous", "--server", address, "--id", "emulated", "--mode", "auto",
		"--poll-interval", "5s", "--history", "1m", "--slurm-conf", l.Conf(), "--log", l.Log())
}

// register registers the scheduler with its intervals fixed, and sends the history.
func (l *lane) register(ctx context.Context, address string) error {
	text, err := os.ReadFile(l.path("scheduler.json"))
	if err != nil {
		return err
	}
	var scheduler pb.Scheduler
	if err := protojson.Unmarshal(text, &scheduler); err != nil {
		return err
	}
	spec := scheduler.GetSpec()
	spec.Mode = pb.SchedulerSpec_AUTO
	spec.Objective = &pb.ObjectiveSpec{Kind: &pb.ObjectiveSpec_Goal{Goal: objective}}
	if spec.Rollout == nil {
		spec.Rollout = &pb.RolloutPolicy{}
	}
	spec.Rollout.UpdateInterval = durationpb.New(3 * time.Minute)
	spec.Rollout.Horizon = durationpb.New(l.span)
	values, err := l.site.Config.Values(l.form.Tuned)
	if err != nil {
		return err
	}
	for _, p := range spec.GetParameters() {
		name, _ := strings.CutPrefix(p.GetParameterId(), conf.SchedulerParameters+".")
		if !slices.Contains(intervals, name) {
			continue
		}
		v := values.Get(p.GetParameterId()).Float()
		switch {
		case p.GetIntegerValueSpec() != nil:
			p.GetIntegerValueSpec().MinValue, p.GetIntegerValueSpec().MaxValue = int64(v), int64(v)
		case p.GetDurationValueSpec() != nil:
			p.GetDurationValueSpec().MinValue, p.GetDurationValueSpec().MaxValue = v, v
		}
		p.DefaultValue = structpb.NewNumberValue(v)
	}
	conn, err := client.Endpoint{Address: address}.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	c, err := client.New(client.Options{Conn: conn, Scheduler: "emulated"})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if _, _, err = c.Register(ctx, &scheduler); err == nil || ctx.Err() != nil {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	text, err = os.ReadFile(l.path("events.jsonl"))
	if err != nil {
		return err
	}
	go func() { _ = c.Run(ctx) }()
	now := time.Now()
	for line := range bytes.Lines(text) {
		if len(line) == 0 || line[0] != '{' {
			continue
		}
		var e pb.Event
		if err := protojson.Unmarshal(line, &e); err != nil {
			return err
		}
		if e.GetSchedulerTime().AsTime().After(now) {
			break
		}
		e.EventId = "history-" + e.GetEventId()
		if err := c.Send(ctx, &e); err != nil {
			return err
		}
	}
	return c.Flush(ctx)
}

// follow watches the include file; the function returned ends that and returns the settings in force with their times.
func (l *lane) follow(ctx context.Context) func() []change {
	ctx, cancel := context.WithCancel(ctx)
	type seen struct {
		at   time.Time
		text string
	}
	done := make(chan []seen)
	go func() {
		var all []seen
		for {
			text, err := os.ReadFile(l.Include())
			if n := len(all); err == nil && (n == 0 || all[n-1].text != string(text)) {
				all = append(all, seen{time.Now(), string(text)})
			}
			select {
			case <-ctx.Done():
				done <- all
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	return func() []change {
		cancel()
		var out []change
		for i, s := range <-done {
			c := change{Conf: s.text}
			if i > 0 {
				c.At = max(0, s.at.Sub(l.began).Seconds())
			}
			out = append(out, c)
		}
		return out
	}
}

// numbers are the jobs' by their ids.
type numbers struct {
	sync.Mutex
	of map[string]int
}

func (n *numbers) set(id string, i int) {
	n.Lock()
	defer n.Unlock()
	n.of[id] = i
}

func (n *numbers) copy() map[string]int {
	n.Lock()
	defer n.Unlock()
	return maps.Clone(n.of)
}

// submit submits the jobs at their times, waits until all have ended, and returns their accounting records.
func (l *lane) submit(ctx context.Context, jobs []job, number *numbers) ([]recorded, error) {
	for i, j := range jobs {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Until(l.began.Add(time.Duration(j.at * float64(time.Second))))):
		}
		id, err := l.Submit(ctx, j.Job)
		if err != nil {
			return nil, err
		}
		number.set(id, i)
	}
	for {
		out, err := l.Run(ctx, "squeue", "-h", "-o", "%A")
		if err == nil && len(bytes.TrimSpace(out)) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(2 * time.Second):
		}
		if time.Since(l.began) > 3*l.span+10*time.Minute {
			return nil, errors.New("the jobs do not end")
		}
	}
	for range 30 {
		got, err := l.accounting(ctx, jobs, number.copy())
		if err == nil {
			return got, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		time.Sleep(time.Second)
	}
	return l.accounting(ctx, jobs, number.copy())
}

// machine measures the delay of the jobs and to slurmctld.
func (l *lane) machine(ctx context.Context, jobs []job, ran []recorded) (m machine, err error) {
	late, over := make([]float64, len(jobs)), make([]float64, len(jobs))
	for i := range jobs {
		late[i] = ran[i].Submit - jobs[i].at
		over[i] = ran[i].End - ran[i].Start - float64(jobs[i].Seconds)
	}
	slices.Sort(late)
	slices.Sort(over)
	m.Late, m.Over = stats.Quantile(late, .95), stats.Quantile(over, .95)
	out, err := l.Run(ctx, "sdiag")
	if err != nil {
		return m, err
	}
	return m, m.cycles(string(out))
}

// cycles reads the longest cycles that sdiag prints: of the main scheduler, then of backfill.
func (m *machine) cycles(sdiag string) error {
	longest := []*float64{&m.Main, &m.Backfill}
	for line := range strings.Lines(sdiag) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "Max cycle:"); ok && len(longest) > 0 {
			us, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				return fmt.Errorf("sdiag: %w", err)
			}
			*longest[0], longest = us/1e6, longest[1:]
		}
	}
	return nil
}

// accounting reads the rows of the jobs.
func (l *lane) accounting(ctx context.Context, jobs []job, number map[string]int) ([]recorded, error) {
	rows, err := l.Run(ctx, "env", "SLURM_TIME_FORMAT=%s", "sacct", "-X", "-a", "-n", "-P", "-S", "now-3hours",
		"--format=JobIDRaw,Submit,Start,End,State")
	if err != nil {
		return nil, err
	}
	out := make([]recorded, len(jobs))
	first := 0.0
	seen := 0
	for row := range strings.Lines(string(rows)) {
		f := strings.Split(strings.TrimSpace(row), "|")
		i, ok := number[f[0]]
		if !ok || len(f) < 5 {
			continue
		}
		var at [3]float64
		for k := range at {
			if at[k], err = strconv.ParseFloat(f[1+k], 64); err != nil {
				return nil, fmt.Errorf("job %s: %w", f[0], err)
			}
		}
		if f[4] != "COMPLETED" {
			return nil, fmt.Errorf("job %s is %s", f[0], f[4])
		}
		j := jobs[i]
		out[i] = recorded{Submit: at[0], Start: at[1], End: at[2], Nodes: j.Nodes, GPUs: j.Job.GPUs,
			Minutes: j.Minutes, User: j.User, Account: j.Account, QOS: j.QOS, Job: f[0]}
		seen++
		if first == 0 || at[0] < first {
			first = at[0]
		}
	}
	if seen != len(jobs) {
		return nil, fmt.Errorf("accounting has %d of %d jobs", seen, len(jobs))
	}
	for i := range out {
		out[i].Submit -= first
		out[i].Start -= first
		out[i].End -= first
	}
	return out, nil
}
