package workload

import "math"

// profile holds the statistics a generator aims at.
type profile struct {
	name       string
	jobsPerDay float64
	hours      [24]float64 // rate of batches by hour of day, mean 1
	days       [7]float64  // by day of week, Monday first, mean 1
	sweepShare float64     // of batches
	rerun      float64     // share of batches that run a batch of their day again
	batchSD    float64     // of ln(duration) within a batch
	classes    [2]batchClass
	tenants    [2]shares
	// wideTenants are those of small batches of more than one GPU.
	wideTenants shares
	durationS   []float64 // points of the distribution function of durations
	durationCDF []float64
	longest     float64    // seconds
	lnMax       [2]float64 // longest duration by class
	statusSplit float64    // seconds
	// completed and cancelled shares of jobs below and above the split; the
	// rest failed.
	statusShort, statusLong [2]float64
}

// The classes of batches: up to nine jobs, or ten and more.
const (
	small = iota
	sweep
)

type batchClass struct {
	sizeRank []float64 // share of the class's batches up to a size
	size     []float64
	gapMean  float64 // seconds between its jobs
	sizes    []sizeClass
	gpuCum   []float64
}

// sizeClass is a share of a class's batches. odds bends the common distribution
// of durations: the odds of outlasting any time are that much larger.
type sizeClass struct {
	gpus  int
	share float64
	odds  float64
}

type shares struct {
	names []string
	cum   []float64
}

// usersPerTenant is an assumption: the trace at hand names no user.
const usersPerTenant = 12

// lnDuration is ln(seconds) at a quantile, for a size class.
func (p *profile) lnDuration(odds, u float64) float64 {
	longer := 1 - u
	longer /= odds - float64((odds-1)*longer)
	return math.Log(logInterp(p.durationCDF, p.durationS, 1-longer))
}

var profiles = []profile{phillyProfile()}

// phillyProfile is a cluster like Microsoft Philly in 2017 (Jeon et al., USENIX
// ATC 2019; data CC-BY-4.0 from msr-fiddle/philly-traces).
//
// From InternLM/AcmeTrace (CC-BY-4.0), about the full trace of 112,956 GPU jobs:
// the distribution function of durations (figure/cdf_job_jobtime.pdf), GPUs and
// GPU-time by size (figure/cdf_job_gpunum.pdf) and status by jobs and by
// GPU-time (data/cluster_summary.csv: mean duration 18,006 s, median 874 s, mean
// 1.928 GPUs). The odds of the size classes are fitted so that each size has
// its published share of GPU-time.
//
// Computed from a public part of the trace (siasosp23/artifacts,
// traces/philly.csv), 2017-09-25 to 2017-11-05, jobs of one virtual cluster with
// gaps of at most 60 s being a batch: 11,720 batches, their sizes, hours, days,
// gaps, tenants and the spread of ln(duration) within them, 0.30. Sweeps of ten
// and more hold 73 % of the jobs, and nearly all of those ask for few GPUs for a
// short time.
//
// Assumptions, for want of numbers: rerun, usersPerTenant, the GPUs of sweeps in
// the full trace, and that status depends on duration only.
func phillyProfile() profile {
	p := profile{
		name:       "philly",
		jobsPerDay: 112956. / 137, // 2017-08-07 to 2017-12-22
		hours: [24]float64{1.102, .934, .973, .989, .958, 1.126, 1.198, 1.27, 1.175, 1.008, .881, .86,
			.838, .803, .788, .799, .936, 1.165, 1.12, .911, .993, 1.112, 1.032, 1.03},
		days:       [7]float64{1.035, 1.058, 1.086, 1.116, 1.095, .87, .739},
		sweepShare: .0359,
		rerun:      .3,
		batchSD:    .3,
		durationS: []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536,
			131072, 262144, 524288, 1048576, 2097152, 5184000},
		durationCDF: []float64{.0003, .0008, .0017, .0082, .0362, .0842, .1888, .2699, .315, .3628, .5491, .6747, .7928, .846, .9029, .9271, .9486,
			.9695, .9839, .9932, .998, .9995, 1},
		longest:     60 * 86400, // the figure ends at 2,097,152 s with 0.9995
		lnMax:       [2]float64{math.Inf(1), math.Log(262144)},
		statusSplit: 16384, // the longest 10 % of jobs: nearly all GPU-time
		statusLong:  [2]float64{.321, .294},
		statusShort: [2]float64{.634, .068}, // so that all jobs are 60.4 % and 9.0 %
	}
	p.classes[small] = batchClass{
		sizeRank: []float64{.8429, .9400, .9625, .9797, .9865, .9925, .9960, .9980, 1},
		size:     []float64{1.999, 2.999, 3.999, 4.999, 5.999, 6.999, 7.999, 8.999, 9.999},
		gapMean:  18,
		sizes: []sizeClass{
			{1, .5391, 2.309}, {2, .0493, 3.379}, {4, .172, 3.043}, {8, .2, 3.924}, {16, .0333, 2.181}, {32, .0063, 1.721},
		},
	}
	p.classes[sweep] = batchClass{
		sizeRank: []float64{0, .164, .304, .443, .582, .721, .791, .861, .930, .972, .986, 1},
		size:     []float64{10, 13, 23, 36, 72, 88, 119, 217, 329, 449, 516, 1063},
		gapMean:  7.5,
		sizes:    []sizeClass{{1, .93, .705}, {2, .01, 3.05}, {4, .04, 2.105}, {8, .02, 3.05}},
	}
	for i := range p.classes {
		sum := 0.0
		for _, s := range p.classes[i].sizes {
			sum += s.share
			p.classes[i].gpuCum = append(p.classes[i].gpuCum, sum)
		}
	}
	p.tenants[sweep] = sharesOf([]string{"vc-a", "vc-b", "vc-c", "vc-d", "vc-e", "vc-f"}, .515, .285, .09, .04, .035, .035)
	p.tenants[small] = sharesOf([]string{"vc-f", "vc-a", "vc-b", "vc-g", "vc-h", "vc-d", "vc-i", "vc-c", "vc-j"},
		.665, .124, .093, .048, .021, .019, .011, .010, .009)
	p.wideTenants = sharesOf([]string{"vc-f", "vc-h", "vc-b", "vc-j", "vc-k", "vc-g", "vc-c", "vc-i", "vc-a", "vc-e"},
		.308, .212, .118, .106, .068, .061, .043, .038, .038, .008)
	return p
}

func sharesOf(names []string, share ...float64) shares {
	s := shares{names: names}
	sum := 0.0
	for _, x := range share {
		sum += x
		s.cum = append(s.cum, sum)
	}
	return s
}
