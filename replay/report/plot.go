package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/workload/stats"
)

// figure is a drawing in SVG user units. Every figure is made once wide and
// once narrow, so that its text keeps its size on a phone.
type figure struct {
	Wide                     bool
	W, H                     float64
	Label                    string // for those who do not see it
	Left, Top, Right, Bottom float64
	X, Y                     []tick
	XName                    string
	Bands                    []box  // behind everything
	Marks                    []tick // labelled vertical lines
	Lines                    []line
	Boxes                    []box
	Texts                    []text
}

type tick struct {
	At    float64
	Label string
}

type line struct {
	Of    int // index of the method
	Class string
	D     string
	Title string
}

type box struct {
	Of         int
	Class      string
	X, Y, W, H float64
	Title      string
}

type text struct {
	Of    int
	Class string
	X, Y  float64
	S     string
}

const (
	wide   = 1040
	narrow = 360
	points = 200 // of a curve, at most
)

func newFigure(w, h, left, right, top, bottom float64, label string) *figure {
	return &figure{Wide: w > narrow, W: w, H: h, Left: left, Top: top, Right: w - right, Bottom: h - bottom, Label: label}
}

// x and y map a share of the axis, 0 to 1, to a place.
func (f *figure) x(share float64) float64 { return round1(f.Left + float64((f.Right-f.Left)*share)) }
func (f *figure) y(share float64) float64 { return round1(f.Bottom - float64((f.Bottom-f.Top)*share)) }

// round1 keeps the file small, and equal wherever it is made.
func round1(v float64) float64 {
	if v = math.Round(v*10) / 10; v != v || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// path draws through points.
type path struct{ b strings.Builder }

func (p *path) to(x, y float64) {
	p.b.WriteByte("LM"[btoi(p.b.Len() == 0)])
	p.b.WriteString(strconv.FormatFloat(round1(x), 'f', -1, 64))
	p.b.WriteByte(' ')
	p.b.WriteString(strconv.FormatFloat(round1(y), 'f', -1, 64))
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// sortedJCTs of each method.
func (r *document) sortedJCTs() [][]float64 {
	out := make([][]float64, len(r.Methods))
	for i := range r.Methods {
		out[i] = slices.Clone(r.Methods[i].JCTs)
		slices.Sort(out[i])
	}
	return out
}

// cdf is the share of jobs that ended within a JCT, which is on a log axis.
func cdf(r *document, sorted [][]float64, w float64) *figure {
	lo, hi := math.Inf(1), 0.0
	for _, s := range sorted {
		if len(s) > 0 {
			// One job in two hundred may end left of the axis.
			lo, hi = min(lo, stats.Quantile(s, .005)), max(hi, s[len(s)-1])
		}
	}
	if hi == 0 {
		return nil
	}
	lo = max(lo, 1)
	hi = max(hi, lo*10)
	f := newFigure(w, 380, 48, 14, 12, 46, "Share of jobs by job completion time, one curve for each method")
	f.XName = "job completion time (log scale)"
	at := func(v float64) float64 { return f.x(math.Log(max(v, lo)/lo) / math.Log(hi/lo)) }
	for _, t := range durations {
		if v := t.Seconds(); v >= lo && v <= hi {
			f.X = append(f.X, tick{at(v), short(t)})
		}
	}
	f.X = spaced(f.X, 34)
	for p := 0; p <= 100; p += 20 {
		f.Y = append(f.Y, tick{f.y(float64(p) / 100), fmt.Sprintf("%d %%", p)})
	}
	for i, s := range sorted {
		if len(s) == 0 {
			continue
		}
		var p path
		n := min(points, len(s))
		p.to(at(s[0]), f.y(0))
		for k := range n {
			j := ((k+1)*len(s) - 1) / n // the last is the longest
			p.to(at(s[j]), f.y(float64(j+1)/float64(len(s))))
		}
		f.Lines = append(f.Lines, line{Of: i, Class: "curve", D: p.b.String(), Title: r.Methods[i].Method})
	}
	return f
}

var durations = []time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 10 * time.Hour, 24 * time.Hour, 3 * 24 * time.Hour,
	10 * 24 * time.Hour, 30 * 24 * time.Hour, 100 * 24 * time.Hour, 1000 * 24 * time.Hour}

func short(d time.Duration) string {
	switch {
	case d >= 24*time.Hour:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d >= time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// spaced drops ticks that would touch the one before.
func spaced(in []tick, apart float64) []tick {
	var out []tick
	for _, t := range in {
		if len(out) == 0 || t.At-out[len(out)-1].At >= apart {
			out = append(out, t)
		}
	}
	return out
}

// gains is the ratio of the default's to each method's JCT at every percentile.
func gains(r *document, sorted [][]float64, w float64) *figure {
	base := slices.IndexFunc(r.Methods, func(m replay.Method) bool { return m.Method == "default" })
	if base < 0 || len(sorted[base]) < 20 || len(r.Methods) < 2 {
		return nil
	}
	const cut = 8
	lo, hi := 1/1.05, 1.05
	type point struct{ p, ratio float64 }
	curves := make([][]point, len(sorted))
	for i, s := range sorted {
		if len(s) == 0 || i == base {
			continue
		}
		for k := range points / 2 {
			p := (float64(k) + .5) / (points / 2)
			own := stats.Quantile(s, p)
			if own <= 0 {
				continue
			}
			v := min(cut, max(1./cut, stats.Quantile(sorted[base], p)/own))
			curves[i] = append(curves[i], point{p, v})
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	f := newFigure(w, 300, 48, 14, 12, 46, "Ratio of the default's to each method's job completion time at every percentile")
	f.XName = "percentile of job completion time"
	at := func(v float64) float64 { return f.y(math.Log(v/lo) / math.Log(hi/lo)) }
	step := 10
	if !f.Wide {
		step = 20
	}
	for p := 0; p <= 100; p += step {
		f.X = append(f.X, tick{f.x(float64(p) / 100), "p" + strconv.Itoa(p)})
	}
	for _, v := range []float64{1, .125, .25, .5, .7, .8, .9, 1.1, 1.25, 1.5, 2, 3, 4, 6, 8} {
		y := at(v)
		if v < lo || v > hi || slices.ContainsFunc(f.Y, func(t tick) bool { return math.Abs(t.At-y) < 16 }) {
			continue
		}
		f.Y = append(f.Y, tick{y, strconv.FormatFloat(v, 'g', -1, 64)})
	}
	f.Bands = append(f.Bands, box{Class: "noise", X: f.Left, Y: at(noise), W: round1(f.Right - f.Left), H: round1(at(1/noise) - at(noise))})
	for i, c := range curves {
		if len(c) == 0 {
			continue
		}
		var p path
		for _, q := range c {
			p.to(f.x(q.p), at(q.ratio))
		}
		f.Lines = append(f.Lines, line{Of: i, Class: "curve", D: p.b.String(), Title: r.Methods[i].Method})
	}
	return f
}

// ratios are bars of the ratio to the default, from 1.
func ratios(r *document, w float64) *figure {
	lo, hi := .98, 1.02
	for i := range r.Methods {
		lo, hi = min(lo, r.Methods[i].RatioToDefault), max(hi, r.Methods[i].RatioToDefault)
	}
	row, left, right := 26., 130., 60.
	if w <= narrow {
		left, right = 114, 44
	}
	f := newFigure(w, row*float64(len(r.Methods))+44, left, right, 6, 38, "Ratio of the default's to each method's average job completion time")
	f.XName = "default's average JCT / this method's; above 1 is better"
	if !f.Wide {
		f.XName = "ratio to default, above 1 is better"
	}
	at := func(v float64) float64 { return f.x((v - lo) / (hi - lo)) }
	for _, v := range nice(lo, hi, map[bool]int{true: 8, false: 4}[f.Wide]) {
		f.X = append(f.X, tick{at(v), strconv.FormatFloat(v, 'g', 4, 64)})
	}
	f.Bands = append(f.Bands, box{Class: "noise", X: at(1 / noise), Y: f.Top, W: round1(at(noise) - at(1/noise)), H: round1(f.Bottom - f.Top)})
	for i := range r.Methods {
		m := &r.Methods[i]
		y := f.Top + row*float64(i)
		a, b := at(min(1, m.RatioToDefault)), at(max(1, m.RatioToDefault))
		f.Boxes = append(f.Boxes, box{Of: i, Class: "bar", X: a, Y: y + 5, W: round1(max(1.5, b-a)), H: row - 10,
			Title: fmt.Sprintf("%s: %.4f, average JCT %s", m.Method, m.RatioToDefault, duration(m.AvgJCT))})
		f.Texts = append(f.Texts, text{i, "name", f.Left - 8, y + row/2 + 4, clip(m.Method, 16)}, text{i, "val", round1(b + 6), y + row/2 + 4, fmt.Sprintf("%.3f", m.RatioToDefault)})
	}
	f.Marks = append(f.Marks, tick{at(1), ""})
	return f
}

// nice are round numbers within lo and hi, about n of them.
func nice(lo, hi float64, n int) []float64 {
	if !(hi > lo) || math.IsInf(hi-lo, 0) {
		return nil
	}
	raw := (hi - lo) / float64(n)
	unit := math.Pow(10, math.Floor(math.Log10(raw)))
	step := 10 * unit
	for _, k := range []float64{1, 2, 5} {
		if k*unit >= raw {
			step = k * unit
			break
		}
	}
	var out []float64
	for k := math.Ceil(lo / step); k*step <= hi; k++ {
		out = append(out, k*step)
	}
	return out
}

// clip shortens a name to n characters.
func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// clock is the time axis that all figures over time share.
type clock struct {
	lo, hi  float64 // seconds since the trace's zero
	end     float64 // of the window
	zero    time.Time
	aligned bool // zero is known
}

// clock spans all series and decisions. It is false if there are none.
func (r *document) clock() (clock, bool) {
	c := clock{lo: math.Inf(1), hi: math.Inf(-1)}
	see := func(at float64) { c.lo, c.hi = min(c.lo, at), max(c.hi, at) }
	for i := range r.Methods {
		for _, s := range r.Methods[i].Series {
			see(s.AtS)
		}
		for _, d := range r.Methods[i].Decisions {
			see(d.AtS)
		}
	}
	if c.lo > c.hi {
		return c, false
	}
	c.hi = max(c.hi, c.lo+1)
	from, err := time.Parse(time.RFC3339, r.From)
	to, err2 := time.Parse(time.RFC3339, r.To)
	if err == nil && err2 == nil {
		c.zero, c.aligned = from.UTC().Add(-time.Duration(c.lo*1e9)), true
		c.end = c.lo + to.Sub(from).Seconds()
	}
	return c, true
}

func (c *clock) share(at float64) float64 { return (at - c.lo) / (c.hi - c.lo) }

// ticks are about n round instants.
func (c *clock) ticks(f *figure, n int) []tick {
	const day = 86400
	step := 3600.
	for _, s := range []float64{900, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600, day, 2 * day, 4 * day, 7 * day, 14 * day, 28 * day, 91 * day, 364 * day} {
		step = s
		if (c.hi-c.lo)/s <= float64(n) {
			break
		}
	}
	origin := c.lo
	if c.aligned {
		origin = c.lo - float64(c.zero.Add(time.Duration(c.lo*1e9)).Sub(c.zero.Add(time.Duration(c.lo*1e9)).Truncate(24*time.Hour)).Seconds())
	}
	var out []tick
	for k := 0.; origin+k*step <= c.hi; k++ {
		at := origin + k*step
		if at < c.lo {
			continue
		}
		label := "+" + short(time.Duration((at-c.lo)*1e9))
		if c.aligned {
			t := c.zero.Add(time.Duration(at * 1e9))
			if label = t.Format("15:04"); label == "00:00" || step >= day {
				label = t.Format("Jan 2")
			}
		}
		out = append(out, tick{f.x(c.share(at)), label})
	}
	return spaced(out, 40)
}

// window marks where the jobs that count stop arriving.
func (c *clock) window(f *figure, label string) {
	if c.end > c.lo && c.end < c.hi {
		f.Marks = append(f.Marks, tick{f.x(c.share(c.end)), label})
	}
}

// thin takes the highest waiting and the mean busy of runs of samples, so that
// at most points remain.
func thin(in []replay.Sample) []replay.Sample {
	if len(in) <= points {
		return in
	}
	out := make([]replay.Sample, 0, points)
	for k := range points {
		run := in[k*len(in)/points : (k+1)*len(in)/points]
		s := replay.Sample{AtS: run[0].AtS}
		busy := 0
		for _, x := range run {
			s.Waiting = max(s.Waiting, x.Waiting)
			busy += x.BusyGPU
		}
		s.BusyGPU = busy / len(run)
		out = append(out, s)
	}
	return out
}

// loads are two small figures for each method: jobs waiting and GPUs busy over
// time, with the default in grey behind. Scales are the same for all.
type load struct {
	Of            int
	Name          string
	Waiting, Busy *figure
	PeakWaiting   int
}

func loads(r *document) []load {
	c, ok := r.clock()
	if !ok {
		return nil
	}
	series := make([][]replay.Sample, len(r.Methods))
	top, base := 1, -1
	for i := range r.Methods {
		series[i] = thin(r.Methods[i].Series)
		for _, s := range series[i] {
			top = max(top, s.Waiting)
		}
		if r.Methods[i].Method == "default" && len(series[i]) > 0 {
			base = i
		}
	}
	gpus := max(1, r.Cluster.TotalGPUs())
	waiting := func(s replay.Sample) float64 { return float64(s.Waiting) / float64(top) }
	busy := func(s replay.Sample) float64 { return min(1, float64(s.BusyGPU)/float64(gpus)) }
	var out []load
	for i := range r.Methods {
		if len(series[i]) == 0 {
			continue
		}
		l := load{Of: i, Name: r.Methods[i].Method}
		for _, s := range series[i] {
			l.PeakWaiting = max(l.PeakWaiting, s.Waiting)
		}
		draw := func(h, bottom float64, label string, share func(replay.Sample) float64) *figure {
			f := newFigure(narrow, h, 44, 8, 6, bottom, label+" over time under "+l.Name)
			curve := func(of int, class string, area bool) {
				var p path
				x := series[of]
				if area {
					p.to(f.x(c.share(x[0].AtS)), f.Bottom)
				}
				for _, s := range x {
					p.to(f.x(c.share(s.AtS)), f.y(share(s)))
				}
				if area {
					p.to(f.x(c.share(x[len(x)-1].AtS)), f.Bottom)
				}
				f.Lines = append(f.Lines, line{Of: of, Class: class, D: p.b.String()})
			}
			curve(i, "area", true)
			if base >= 0 && base != i {
				curve(base, "behind", false)
			}
			curve(i, "curve thin", false)
			return f
		}
		l.Waiting = draw(110, 8, "Jobs waiting", waiting)
		for _, v := range nice(0, float64(top), 3) {
			l.Waiting.Y = append(l.Waiting.Y, tick{l.Waiting.y(v / float64(top)), strconv.FormatFloat(v, 'f', -1, 64)})
		}
		c.window(l.Waiting, "")
		l.Busy = draw(88, 22, "GPUs busy", busy)
		l.Busy.Y = []tick{{l.Busy.y(0), "0"}, {l.Busy.y(.5), strconv.Itoa(gpus / 2)}, {l.Busy.y(1), strconv.Itoa(gpus)}}
		l.Busy.X = c.ticks(l.Busy, 6)
		c.window(l.Busy, "")
		out = append(out, l)
	}
	return out
}

// changes are the configurations in force over time of each method that
// decides: a bar with a mark where one was adopted, and a dot for each round
// that kept it.
func changes(r *document, w float64) *figure {
	c, ok := r.clock()
	if !ok {
		return nil
	}
	var who []int
	for i := range r.Methods {
		if len(r.Methods[i].Decisions) > 0 {
			who = append(who, i)
		}
	}
	if len(who) == 0 {
		return nil
	}
	const row, bar = 58., 16.
	f := newFigure(w, row*float64(len(who))+44, 10, 10, 4, 40, "When each method changed the configuration")
	f.X = c.ticks(f, map[bool]int{true: 14, false: 5}[f.Wide])
	f.XName = "time of the round (UTC)"
	c.window(f, "")
	for n, i := range who {
		m := &r.Methods[i]
		y := f.Top + row*float64(n)
		f.Texts = append(f.Texts, text{i, "lane", f.Left, y + 12, fmt.Sprintf("%s: %d changes in %d rounds", clip(m.Method, 24), m.Changes, len(m.Decisions))})
		y += 22
		last := c.hi
		if k := len(m.Series); k > 0 {
			last = m.Series[k-1].AtS
		}
		// The stretches of one configuration, alternately shaded.
		begin, shade := 0, 0
		for k := 1; k <= len(m.Decisions); k++ {
			if k < len(m.Decisions) && !m.Decisions[k].Adopted {
				continue
			}
			d := &m.Decisions[begin]
			end, until := last, "the end"
			if k < len(m.Decisions) {
				end, until = m.Decisions[k].AtS, m.Decisions[k].At
			}
			a, b := f.x(c.share(d.AtS)), f.x(c.share(end))
			f.Boxes = append(f.Boxes, box{Of: i, Class: "held" + strconv.Itoa(shade), X: a, Y: y, W: round1(max(0, b-a)), H: bar,
				Title: fmt.Sprintf("%s, %s until %s: %s", m.Method, d.At, until, d.Configuration)})
			begin, shade = k, 1-shade
		}
		for k := range m.Decisions {
			d := &m.Decisions[k]
			x := f.x(c.share(d.AtS))
			if d.Adopted {
				f.Boxes = append(f.Boxes, box{Of: i, Class: "adopted", X: round1(x - 1.25), Y: y - 4, W: 2.5, H: bar + 8,
					Title: fmt.Sprintf("%s, ratio %s: %s. %s", d.At, ratio(d.Ratio), d.Reason, d.Configuration)})
				continue
			}
			b := box{Of: i, Class: "kept", X: round1(x - .75), Y: y + bar + 4, W: 1.5, H: 5}
			if len(m.Decisions) <= tips {
				b.Title = fmt.Sprintf("%s, ratio %s: %s", d.At, ratio(d.Ratio), d.Reason)
			}
			f.Boxes = append(f.Boxes, b)
		}
	}
	return f
}

// tips is how many rounds a method may have for the kept ones to be explained
// in the figure; above, they would touch.
const tips = 600

func ratio(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }

// Mid of the axis, for its name.
func (f *figure) Mid() float64 { return round1((f.Left + f.Right) / 2) }
