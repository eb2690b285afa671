package synth

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/stats"
)

// targets are the published statistics of a profile, by path.
type targets struct {
	t    *testing.T
	tree map[string]any
}

func readTargets(t *testing.T, name string) targets {
	t.Helper()
	b, err := os.ReadFile(testshared.Path(t, "traces", "profiles", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	out := targets{t: t}
	if err := json.Unmarshal(b, &out.tree); err != nil {
		t.Fatal(err)
	}
	return out
}

// get follows a path, past the value fields.
func (x targets) get(path string) any {
	x.t.Helper()
	var at any = x.tree
	for _, step := range strings.Split(path, "/") {
		m, ok := at.(map[string]any)
		if !ok {
			x.t.Fatalf("there is no target %s", path)
		}
		if _, has := m[step]; !has {
			m, _ = m["value"].(map[string]any)
		}
		at = m[step]
	}
	if m, ok := at.(map[string]any); ok && m["value"] != nil {
		at = m["value"]
	}
	return at
}

func (x targets) number(path string) float64 {
	x.t.Helper()
	v, ok := x.get(path).(float64)
	if !ok {
		x.t.Fatalf("target %s is no number", path)
	}
	return v
}

func (x targets) numbers(path string) []float64 {
	x.t.Helper()
	var out []float64
	for _, v := range x.get(path).([]any) {
		out = append(out, v.(float64))
	}
	return out
}

// within compares with a target, by a share of it.
func (x targets) within(what string, got, want, share float64) {
	x.t.Helper()
	testshared.Near(x.t, what, got, want, math.Abs(share*want))
}

// generated has the compared figures of one workload.
type generated struct {
	w      *workload.Workload
	stats  stats.Description
	status [4]float64 // by jobs
	byTime [4]float64 // by GPU-time
	users  []float64  // jobs by user, most first
	time   []float64  // GPU-time by user, most first
	over   func(least int) float64
	hours  [24]float64 // of submissions, mean 1
	days   [7]float64
}

func generate(t *testing.T, profile string, jobs int) *generated {
	t.Helper()
	p := loadProfile(profile)
	w, err := Generate(t.Context(), Options{Profile: profile, Days: int(float64(jobs)/p.JobsPerDay/7) * 7, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	g := &generated{w: w, stats: stats.Describe(w, nil)}
	n, total := float64(w.Len()), 0.0
	keys, users, usage := map[string]int{}, map[string]float64{}, map[string]float64{}
	for i := range w.Jobs() {
		j := &w.Jobs()[i]
		v := float64(j.GPUs) / 1000 * j.Duration.Hours()
		total += v
		g.status[j.Status] += 1 / n
		g.byTime[j.Status] += v
		keys[j.Key]++
		users[j.User] += 1 / n
		usage[j.User] += v
		at := w.Clock(j.Submit)
		g.hours[at.Hour()] += 24 / n
		g.days[(int(at.Weekday())+6)%7] += 7 / n
	}
	for k := range g.byTime {
		g.byTime[k] /= total
	}
	for _, u := range sortedKeys(users) {
		g.users, g.time = append(g.users, users[u]), append(g.time, usage[u]/total)
	}
	for _, v := range [][]float64{g.users, g.time} {
		sort.Sort(sort.Reverse(sort.Float64Slice(v)))
	}
	g.over = func(least int) float64 {
		sum := 0
		for _, size := range keys {
			if size >= least {
				sum += size
			}
		}
		return float64(sum) / n
	}
	return g
}

func sortedKeys(m map[string]float64) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// top is the share that the first of a number of users have.
func top(each []float64, count int, share float64) float64 {
	sum := 0.0
	for _, v := range each[:min(len(each), int(math.Round(share*float64(count))))] {
		sum += v
	}
	return sum
}

// common compares the figures common to all profiles. under is where the cluster is.
func (x targets) common(g *generated, under string, cdf float64) {
	x.t.Helper()
	x.within("mean duration", g.stats.Durations.Mean, x.number(under+"summary/mean_duration_s"), .08)
	x.within("median duration", g.stats.Durations.P50, x.number(under+"summary/median_duration_s"), .1)
	x.within("mean GPUs", g.stats.MeanGPUs, x.number(under+"summary/mean_gpus"), .06)
	points := x.numbers(under + "duration_cdf/x_s")
	for i, f := range x.numbers(under + "duration_cdf/cdf") {
		n := 0
		for k := range g.w.Jobs() {
			if g.w.Jobs()[k].Duration.Seconds() <= points[i] {
				n++
			}
		}
		testshared.Near(x.t, fmt.Sprintf("durations up to %v s", points[i]), float64(n)/float64(g.w.Len()), f, cdf)
	}
	for name, got := range map[string]float64{"p25": g.stats.Durations.P25, "p75": g.stats.Durations.P75,
		"p90": g.stats.Durations.P90, "p99": g.stats.Durations.P99} {
		x.within(name+" of duration", got, x.number(under+"duration_quantiles_s/"+name), .2)
	}
}

func (x targets) statuses(g *generated, under string) {
	x.t.Helper()
	for i, name := range []string{"completed", "cancelled", "failed"} {
		testshared.Near(x.t, name+" by jobs", g.status[i+1], x.number(under+"summary/status_by_jobs/"+name), .02)
		testshared.Near(x.t, name+" by GPU-time",
			g.byTime[i+1], x.number(under+"summary/status_by_gpu_time/"+name), .04)
	}
}

// sizes compares jobs and GPU-time by size, and the mean durations they imply.
func (x targets) sizes(g *generated, under string) {
	x.t.Helper()
	for _, z := range g.stats.Sizes {
		gpus := strconv.FormatFloat(z.GPUs, 'f', -1, 64)
		testshared.Near(x.t, "jobs of "+gpus+" GPUs", z.JobShare, x.number(under+"gpu_prob/"+gpus), .015)
		testshared.Near(x.t, "GPU-time of "+gpus+" GPUs", z.GPUTimeShare, x.number(under+"gpu_time_share/"+gpus), .035)
	}
}

func (x targets) shape(g *generated, hours, days []float64) {
	x.t.Helper()
	mean := 0.0
	for _, v := range hours {
		mean += v / 24
	}
	for h, v := range hours {
		testshared.Near(x.t, fmt.Sprintf("submissions at %d h", h), g.hours[h], v/mean, .1)
	}
	for d, v := range days {
		testshared.Near(x.t, fmt.Sprintf("submissions on day %d", d), g.days[d], v, .1)
	}
}

func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("half a million jobs; one profile is compared under -short")
	}
}

// The tolerances cover errors of reading figures (a tenth of a percentage point,
// or 5 % where by eye) and the sampling error of about 60,000 groups of jobs,
// of which the longest thousandth hold a third of the GPU-time.
func TestGenerateHelios(t *testing.T) {
	x, g := readTargets(t, "helios"), generate(t, "helios", 500_000)
	if got, want := float64(g.w.Len())/(g.stats.SpanS/86400),
		x.number("summary/gpu_jobs")/183; math.Abs(got/want-1) > .01 {
		t.Errorf("%v jobs a day, want %v", got, want)
	}
	x.common(g, "", .025)
	x.statuses(g, "")
	x.sizes(g, "")
	means := map[float64][2]float64{}
	byStatus := map[float64]*[4]float64{}
	for i := range g.w.Jobs() {
		j := &g.w.Jobs()[i]
		m := means[float64(j.GPUs)/1000]
		means[float64(j.GPUs)/1000] = [2]float64{m[0] + j.Duration.Seconds(), m[1] + 1}
		if byStatus[float64(j.GPUs)/1000] == nil {
			byStatus[float64(j.GPUs)/1000] = &[4]float64{}
		}
		byStatus[float64(j.GPUs)/1000][j.Status]++
	}
	for _, gpus := range []float64{1, 2, 4, 8, 16, 32} {
		m, s := means[gpus], byStatus[gpus]
		x.within(fmt.Sprintf("mean duration of %v GPUs", gpus), m[0]/m[1],
			x.number(fmt.Sprintf("mean_duration_s_by_gpus/%v", gpus)), .25)
		for i, name := range []string{"completed", "cancelled", "failed"} {
			testshared.Near(t, fmt.Sprintf("%s of %v GPUs", name, gpus), s[i+1]/m[1],
				x.number(fmt.Sprintf("status_by_gpus/%v/%s", gpus, name)), .04)
		}
	}
	testshared.Near(t, "jobs in groups over ten", g.over(11), x.number("recurrence/share_jobs_in_groups_gt_10"), .03)
	testshared.Near(t, "jobs in groups of five", g.over(5), x.number("recurrence/share_jobs_in_groups_ge_5"), .03)
	hours := make([]float64, 24)
	concentration, users := map[float64]float64{}, 0.0
	shares := map[float64]string{.01: "top_1pct_users", .05: "top_5pct_users", .1: "top_10pct_users",
		.25: "top_25pct_users"}
	for _, c := range []string{"Venus", "Earth", "Saturn", "Uranus"} {
		for h, v := range x.numbers("clusters/" + c + "/submitted_gpu_jobs_per_hour_of_day") {
			hours[h] += v
		}
		for s, name := range shares {
			concentration[s] += x.number("clusters/"+c+"/user_gpu_time_concentration/"+name) / 4
		}
		users += x.number("clusters/" + c + "/users")
	}
	for s, want := range concentration {
		testshared.Near(t, fmt.Sprintf("GPU-time of the first %v of users", s), top(g.time, int(users), s), want, .08)
	}
	x.shape(g, hours, x.numbers("venus_submissions/arrivals/all_apr_aug/profile/day_of_week_mult_mon_first"))
}

func TestGeneratePAI(t *testing.T) {
	skipShort(t)
	x, g := readTargets(t, "pai"), generate(t, "pai", 500_000)
	if got, want := float64(g.w.Len())/(g.stats.SpanS/86400),
		x.number("summary/gpu_jobs")/62; math.Abs(got/want-1) > .01 {
		t.Errorf("%v jobs a day, want %v", got, want)
	}
	x.common(g, "", .025)
	jobs, usage := 0.0, 0.0
	for _, z := range g.stats.Sizes {
		jobs += z.JobShare
		usage += z.GPUTimeShare
		if z.GPUs >= 1 {
			// The figures have parts of a GPU and whole ones together, at two points.
			name := strconv.FormatFloat(z.GPUs, 'f', -1, 64)
			testshared.Near(t, "jobs up to "+name+" GPUs", jobs, x.number("gpu_cdf_jobs/"+name), .015)
			testshared.Near(t, "GPU-time up to "+name+" GPUs", usage, x.number("gpu_time_cdf/"+name), .06)
		}
	}
	for i, name := range []string{"<0.25 GPU", "[0.25,0.5)", "[0.5,1)", "1"} {
		testshared.Near(t, "jobs of "+name, g.stats.Sizes[i].JobShare, x.number("gpu_request_mix/"+name), .025)
	}
	testshared.Near(t, "failed", g.status[workload.Failed], x.number("status/failed"), .01)
	testshared.Near(t, "jobs in groups over ten", g.over(11), x.number("recurrence_model/share_jobs_gt_10"), .03)
	testshared.Near(t, "jobs in groups over ten (paper)",
		g.over(11), x.number("recurrence/share_jobs_repeating_gt_10"), .03)
	testshared.Near(t, "jobs in groups of five", g.over(5), x.number("recurrence_model/share_jobs_ge_5"), .03)
	testshared.Near(t, "jobs in groups of two", g.over(2), x.number("recurrence_model/share_jobs_ge_2"), .03)
	testshared.Near(t, "ln(duration) within a group", g.stats.Recurrence.KeyLnSD, .5, .03)
	x.shape(g, x.numbers("tasks_per_hour_by_hour_of_day_median"),
		x.numbers("pods_2023/arrivals_day112_140/profile/day_of_week_mult_mon_first"))
	// Tasks per user, over the 1.2 million tasks and 1,300 users that are recalled.
	for name, rank := range map[string]float64{"p50": .5, "p80": .8, "p90": .9, "p95": .95} {
		at := g.users[int((1-rank)*x.number("users"))]
		x.within("tasks of the user at "+name, at*1.2e6, x.number("tasks_per_user_quantiles/"+name), .75)
	}
}

func TestGenerateAcme(t *testing.T) {
	skipShort(t)
	x, g := readTargets(t, "acme"), generate(t, "acme", 500_000)
	const seren = "clusters/Seren/"
	if got, want := float64(g.w.Len())/(g.stats.SpanS/86400),
		x.number(seren+"summary/gpu_jobs")/184; math.Abs(got/want-1) > .01 {
		t.Errorf("%v jobs a day, want %v", got, want)
	}
	x.common(g, seren, .025)
	x.statuses(g, seren)
	x.sizes(g, seren)
	h := readTargets(t, "helios")
	x.shape(g, h.numbers("clusters/Saturn/hour_of_day_mult"),
		h.numbers("venus_submissions/arrivals/all_apr_aug/profile/day_of_week_mult_mon_first"))
	if in10 := g.stats.Batches.JobsIn10; in10 < .4 { // "tens to hundreds at once"
		t.Errorf("%v of the jobs come in batches of ten", in10)
	}
}

// TestGeneratePhilly has the published figures.
func TestPhillyTargets(t *testing.T) {
	x := readTargets(t, "philly")
	d := loadProfile("philly").Duration
	if d.MeanS != math.Round(x.number("published_full_trace/summary/mean_duration_s")) ||
		d.MedianS != x.number("published_full_trace/summary/median_duration_s") {
		t.Error("mean or median")
	}
	for i, f := range x.numbers("published_full_trace/duration_cdf/cdf") {
		if d.CDF[i] != f {
			t.Errorf("durations at point %d: %v, published %v", i, d.CDF[i], f)
		}
	}
}

// Every profile holds in a week as well: jobs are spread evenly.
func TestShortTracesResemble(t *testing.T) {
	if testing.Short() {
		t.Skip("generates nine weeks")
	}
	for _, name := range []string{"acme", "helios", "pai"} {
		p := loadProfile(name)
		for seed := range uint64(3) {
			began := time.Now()
			w, err := Generate(t.Context(), Options{Profile: name, Days: 7, Seed: seed})
			if err != nil {
				t.Fatal(err)
			}
			s := stats.Describe(w, nil)
			if s.Durations.Mean < .6*p.Duration.MeanS || s.Durations.Mean > 1.6*p.Duration.MeanS ||
				s.Durations.P50 < .75*p.Duration.MedianS || s.Durations.P50 > 1.3*p.Duration.MedianS {
				t.Errorf("%s, seed %d: mean %.0f s, median %.0f s, in %v",
					name, seed, s.Durations.Mean, s.Durations.P50, time.Since(began))
			}
		}
	}
}
