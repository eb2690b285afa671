package synth

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
)

// profileFiles hold the statistics that generators aim at, each number with its
// source. Further needs of a generator (how the durations of a size differ
// from the durations of all, which status long jobs have) are fitted at their first
// use, so that the files have the published numbers and nothing else.
//
//go:embed profiles/*.json
var profileFiles embed.FS

// profileNames in order; each is a file.
var profileNames = []string{"acme", "helios", "pai", "philly"}

// profile is a published cluster.
type profile struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Sources []string `json:"sources"`
	// Model is batches (of one tenant, with gaps of seconds) or groups (of jobs
	// that recur, in bursts).
	Model      string          `json:"model"`
	JobsPerDay float64         `json:"jobs_per_day"`
	Hours      [24]float64     `json:"hours"` // rate by hour of day, mean 1
	Days       [7]float64      `json:"days"`  // by day of week, Monday first, mean 1
	Duration   profileDuration `json:"duration"`
	Status     profileStatus   `json:"status"`

	Batches *profileBatches `json:"batches"`

	Sizes   []profileSize  `json:"sizes"`
	Groups  *profileGroups `json:"groups"`
	Tenants int            `json:"tenants"`
	Users   *profileUsers  `json:"users"`

	fit groupFit // of model groups
}

// profileDuration is the distribution function of durations at some points, in
// seconds.
type profileDuration struct {
	MeanS    float64   `json:"mean_s"`
	MedianS  float64   `json:"median_s"`
	LongestS float64   `json:"longest_s"` // 0: the last point
	XS       []float64 `json:"x_s"`
	CDF      []float64 `json:"cdf"`
}

// profileStatus are the shares of jobs that are completed and cancelled; the
// rest failed. Either below and above a duration, or by jobs and by GPU-time.
type profileStatus struct {
	SplitS  float64     `json:"split_s"`
	Short   *[2]float64 `json:"short"`
	Long    *[2]float64 `json:"long"`
	Jobs    *[2]float64 `json:"jobs"`
	GPUTime *[2]float64 `json:"gpu_time"`
}

// profileBatches is the model in which a batch is one submission of
// a user: up to nine jobs, or a sweep of ten and more.
type profileBatches struct {
	SweepShare    float64    `json:"sweep_share"`
	Rerun         float64    `json:"rerun"` // share of batches that run a batch of their day again
	LnSD          float64    `json:"ln_sd"` // of ln(duration) within a batch
	LongestSweepS float64    `json:"longest_sweep_s"`
	Small         batchClass `json:"small"`
	Sweep         batchClass `json:"sweep"`
	// WideTenants are the tenants of small batches of more than one GPU.
	WideTenants []string  `json:"wide_tenants"`
	WideShares  []float64 `json:"wide_tenant_shares"`

	classes [2]*batchClass
	wide    shares
}

// The classes of batches: up to nine jobs, or ten and more.
const (
	small = iota
	sweep
)

type batchClass struct {
	Rank         []float64   `json:"rank"` // share of the class's batches up to a size
	Size         []float64   `json:"size"`
	GapS         float64     `json:"gap_s"` // mean between its jobs
	Sizes        []sizeClass `json:"sizes"`
	Tenants      []string    `json:"tenants"`
	TenantShares []float64   `json:"tenant_shares"`

	gpuCum  []float64
	tenants shares
	lnMax   float64 // longest duration
}

// sizeClass is a share of a class's batches. Odds bends the common distribution
// of durations: the odds of outlasting any time are that much larger.
type sizeClass struct {
	GPUs  int     `json:"gpus"`
	Share float64 `json:"share"`
	Odds  float64 `json:"odds"`
}

// profileSize is the share of jobs and of GPU-time of one size, and the shares
// of its jobs that are completed and cancelled, if they differ from all.
type profileSize struct {
	GPUs    float64     `json:"gpus"`
	Jobs    float64     `json:"jobs"`
	GPUTime float64     `json:"gpu_time"`
	Status  *[2]float64 `json:"status"`
}

// profileGroups is the model in which a group is jobs that recur.
type profileGroups struct {
	Over10     float64 `json:"over_10"` // share of jobs in groups of more than ten
	Largest    int     `json:"largest"`
	LnSD       float64 `json:"ln_sd"`       // of ln(duration) within a group
	Burst      float64 `json:"burst"`       // mean jobs submitted in one go
	GapS       float64 `json:"gap_s"`       // mean between them
	SpreadDays float64 `json:"spread_days"` // mean between a group's first burst and another
}

// profileUsers is how activity concentrates: the share of the Top most active
// users, ending with 1 and 1.
type profileUsers struct {
	Count int       `json:"count"`
	Top   []float64 `json:"top"`
	Share []float64 `json:"share"`
	// Even is how much of the activity is spread evenly instead: where the shares
	// are of GPU-time, a few long jobs add to the concentration.
	Even float64 `json:"even"`
}

type shares struct {
	names []string
	cum   []float64
}

func sharesOf(names []string, share []float64) shares {
	s := shares{names: names}
	sum := 0.0
	for _, x := range share {
		sum += x
		s.cum = append(s.cum, sum)
	}
	return s
}

// usersPerTenant is an assumption of the batches model: the trace at hand names
// no user.
const usersPerTenant = 12

// lnDuration is ln(seconds) at a quantile, for odds.
func (d *profileDuration) ln(odds, u float64) float64 {
	longer := 1 - u
	longer /= odds - (odds-1)*longer
	return math.Log(logInterp(d.CDF, d.XS, 1-longer))
}

// profiles reads each on first use: fitting one takes a while, and most commands
// need none.
var profiles = func() map[string]func() *profile {
	out := map[string]func() *profile{}
	for _, name := range profileNames {
		out[name] = sync.OnceValue(func() *profile {
			p, err := readProfile(profileText(name))
			if err != nil {
				panic("synth: profile " + name + ": " + err.Error())
			}
			return p
		})
	}
	return out
}()

// loadProfile returns a profile, nil if there is none of that name.
func loadProfile(name string) *profile {
	if load := profiles[name]; load != nil {
		return load()
	}
	return nil
}

func profileText(name string) []byte {
	text, err := profileFiles.ReadFile("profiles/" + name + ".json")
	if err != nil {
		panic("synth: " + err.Error())
	}
	return text
}

// readProfile reads, checks and fits one profile.
func readProfile(text []byte) (*profile, error) {
	p := &profile{}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(p); err != nil {
		return nil, err
	}
	d := &p.Duration
	if len(d.XS) < 2 || len(d.XS) != len(d.CDF) || !slices.IsSorted(d.XS) || !slices.IsSorted(d.CDF) {
		return nil, fmt.Errorf("duration: want the distribution function at two points or more, in order")
	}
	if d.LongestS == 0 {
		d.LongestS = d.XS[len(d.XS)-1]
	}
	switch {
	case p.Model == "batches" && p.Batches != nil && p.Status.Long != nil && p.Status.Short != nil:
		b := p.Batches
		b.classes = [2]*batchClass{&b.Small, &b.Sweep}
		for _, c := range b.classes {
			sum := 0.0
			for _, s := range c.Sizes {
				sum += s.Share
				c.gpuCum = append(c.gpuCum, sum)
			}
			c.tenants, c.lnMax = sharesOf(c.Tenants, c.TenantShares), math.Inf(1)
		}
		b.Sweep.lnMax = math.Log(b.LongestSweepS)
		b.wide = sharesOf(b.WideTenants, b.WideShares)
	case p.Model == "groups" && p.Groups != nil && p.Users != nil && p.Status.Jobs != nil && p.Status.GPUTime != nil:
		return p, p.fitGroups()
	default:
		return nil, fmt.Errorf("model: %q lacks its fields", p.Model)
	}
	return p, nil
}
