package telemetry

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"time"
)

// point is a value of a metric at a time.
type point struct {
	at     time.Duration
	value  float64
	target int32
	metric int32
}

// points gathers values in any order and gives samples out in order of time: a sample has all metrics of a GPU at an
// instant. Scrapes one after the other are given out one by one; of series one after the other, of any length, the
// values are sorted, on disk beyond a bound.
type points struct {
	in      *input
	held    []point
	latest  time.Duration
	last    int32          // metric of the value before
	seen    map[int32]bool // metrics since the last sample
	targets []target
	byText  map[string]int32
	metrics map[string]*metric // by name, nil for unknown ones
	used    []*metric
	numbers map[*metric]int32
	xids    map[GPU]int
	indexes map[hostUUID]int // of GPUs whose labels have no index
	nodes   map[hostUUID]instantOfNode
	next    map[string]int // the index of the next GPU of a node
	runs    []*os.File
}

// hostUUID identifies a GPU by its UUID, on a node where it counts.
type hostUUID struct{ node, uuid string }

type instantOfNode struct {
	node string
	at   time.Duration
}

// heldPoints is how many values are in memory.
var heldPoints = 1 << 21

func newPoints(in *input) *points {
	p := &points{in: in, last: -1, seen: map[int32]bool{}, byText: map[string]int32{}, metrics: map[string]*metric{},
		numbers: map[*metric]int32{}, xids: in.opts.Xids, indexes: map[hostUUID]int{},
		nodes: map[hostUUID]instantOfNode{}, next: map[string]int{}}
	if p.xids == nil {
		p.xids = map[GPU]int{}
	}
	return p
}

func (p *points) number(m *metric) int32 {
	n, ok := p.numbers[m]
	if !ok {
		n = int32(len(p.used))
		p.numbers[m], p.used = n, append(p.used, m)
	}
	return n
}

// add takes a value. A scrape ends where a metric comes again after others, later than all before; without a time of
// its own, wherever it comes again.
func (p *points) add(x point, timed bool) error {
	if x.metric != p.last {
		if p.seen[x.metric] && (x.at > p.latest || !timed) && len(p.runs) == 0 {
			if err := p.flush(); err != nil {
				return err
			}
		}
		p.seen[x.metric], p.last = true, x.metric
	}
	p.latest = max(p.latest, x.at)
	if p.held = append(p.held, x); len(p.held) >= heldPoints {
		return p.spill()
	}
	return nil
}

func (p *points) sort() {
	slices.SortStableFunc(p.held, func(a, b point) int { return cmp.Compare(a.at, b.at) })
}

const pointBytes = 24

// spill writes the values in memory to disk.
func (p *points) spill() error {
	p.sort()
	f, err := os.CreateTemp("", "autosched-points-")
	if err != nil {
		return err
	}
	os.Remove(f.Name()) // the file lasts as long as it is open
	p.runs = append(p.runs, f)
	w := bufio.NewWriterSize(f, 1<<20)
	var b [pointBytes]byte
	for i := range p.held {
		x := &p.held[i]
		binary.LittleEndian.PutUint64(b[:], uint64(x.at))
		binary.LittleEndian.PutUint64(b[8:], math.Float64bits(x.value))
		binary.LittleEndian.PutUint32(b[16:], uint32(x.target))
		binary.LittleEndian.PutUint32(b[20:], uint32(x.metric))
		w.Write(b[:])
	}
	p.held = p.held[:0]
	if err := w.Flush(); err != nil {
		return fmt.Errorf("sorting series: %w", err)
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}

func (p *points) close() {
	for _, f := range p.runs {
		f.Close()
	}
}

// end gives out all that is left.
func (p *points) end() error {
	p.in.stats.Unknown = p.unknown()
	return p.flush()
}

// flush gives the samples of the values out, in order of time and, at an instant, of their first values.
func (p *points) flush() error {
	p.sort()
	group := make([]point, 0, 64)
	give := func(x point) error {
		if len(group) > 0 && group[0].at != x.at {
			if err := p.emit(group); err != nil {
				return err
			}
			group = group[:0]
		}
		group = append(group, x)
		return nil
	}
	if err := p.merge(give); err != nil {
		return err
	}
	if len(group) > 0 {
		if err := p.emit(group); err != nil {
			return err
		}
	}
	p.held, p.last, p.latest = p.held[:0], -1, 0
	clear(p.seen)
	if len(p.targets) > maxTargets {
		p.targets = p.targets[:0]
		clear(p.byText)
	}
	return nil
}

// merge gives all values out in order of time; of an instant, in the order in which they came.
func (p *points) merge(give func(point) error) error {
	type run struct {
		r    *bufio.Reader
		head point
	}
	var runs []*run
	read := func(x *run) error {
		var b [pointBytes]byte
		if _, err := io.ReadFull(x.r, b[:]); err != nil {
			return err
		}
		x.head = point{time.Duration(binary.LittleEndian.Uint64(b[:])),
			math.Float64frombits(binary.LittleEndian.Uint64(b[8:])), int32(binary.LittleEndian.Uint32(b[16:])),
			int32(binary.LittleEndian.Uint32(b[20:]))}
		return nil
	}
	for _, f := range p.runs {
		x := &run{r: bufio.NewReaderSize(f, 256<<10)}
		if err := read(x); err != nil {
			return fmt.Errorf("sorting series: %w", err)
		}
		runs = append(runs, x)
	}
	k := 0
	for len(runs) > 0 || k < len(p.held) {
		first := -1
		for i, x := range runs {
			if first < 0 || x.head.at < runs[first].head.at {
				first = i
			}
		}
		if first < 0 || k < len(p.held) && p.held[k].at < runs[first].head.at {
			if err := give(p.held[k]); err != nil {
				return err
			}
			k++
			continue
		}
		x := runs[first]
		if err := give(x.head); err != nil {
			return err
		}
		if err := read(x); err == io.EOF {
			runs = slices.Delete(runs, first, first+1)
		} else if err != nil {
			return fmt.Errorf("sorting series: %w", err)
		}
	}
	return nil
}

// gathered is a sample of an instant in the making.
type gathered struct {
	GPUSample
	free, index, number float64 // of roles, NaN if there is none
	shared              bool    // by several jobs
	ranks               map[Field]int
}

// emit gives out the samples of an instant.
func (p *points) emit(group []point) error {
	type key struct {
		gpu  GPU
		uuid string // where the index is not known
	}
	var all []*gathered
	at := map[key]*gathered{}
	for i := range group {
		x, t := &group[i], &p.targets[group[i].target]
		k := key{gpu: t.gpu}
		if t.gpu.Index < 0 {
			k.uuid = t.uuid
		}
		g := at[k]
		if g == nil {
			if len(all) >= maxTargets {
				return fmt.Errorf("%w: a scrape of more than %d GPUs", ErrLimit, maxTargets)
			}
			g = &gathered{GPUSample: GPUSample{GPU: t.gpu, UUID: t.uuid, Time: x.at, Job: t.job}, free: math.NaN(),
				index: math.NaN(), number: math.NaN(), ranks: map[Field]int{}}
			at[k], all = g, append(all, g)
		}
		if t.podOf {
			p.in.stats.Exporters++
		}
		if g.Job != t.job || g.shared { // a GPU that jobs share is listed once for each
			g.shared, g.Job = true, ""
		}
		g.take(p.used[x.metric], x.value)
	}
	if err := p.index(all); err != nil {
		return err
	}
	for _, g := range all {
		if err := p.give(g); err != nil {
			return err
		}
	}
	return nil
}

// check says why a value of a metric cannot be; a blank one leaves the quantity unknown.
func (p *points) check(m *metric, v float64) (reason string) {
	var scratch GPUSample
	switch {
	case m.absent(v):
		p.in.stats.Absent++
	case m.role == isIndex || m.role == isJob:
		if v < 0 || v != math.Trunc(v) || v > 1<<53 || m.role == isIndex && v > maxGPU {
			reason = outOfRange
		}
	case m.role == isFreeMemory:
		if v *= m.scale; !(v >= 0 && v <= quantityOf(MemoryTotal).Most) {
			reason = outOfRange
		}
	default:
		reason = m.take(&scratch, v)
	}
	return reason
}

// take sets a value of a sample that was checked.
func (g *gathered) take(m *metric, v float64) {
	switch {
	case m.absent(v):
	case m.role == isFreeMemory:
		g.free = v * m.scale
	case m.role == isIndex:
		g.index = v
	case m.role == isJob:
		g.number = v
	default:
		q := quantityOf(m.field)
		if r, ok := g.ranks[m.field]; ok && r < m.rank && (q == nil || v == 0 || *q.At(&g.GPUSample) != 0) {
			return // another metric of the quantity comes first
		}
		m.take(&g.GPUSample, v)
		g.ranks[m.field] = m.rank
	}
}

// index gives GPUs whose labels have no index the one that a metric says, else the next of their node in order of
// their UUIDs.
func (p *points) index(all []*gathered) error {
	var without []*gathered
	for _, g := range all {
		if g.Index < 0 {
			without = append(without, g)
		}
	}
	slices.SortStableFunc(without, func(a, b *gathered) int { return cmp.Compare(a.UUID, b.UUID) })
	for _, g := range without {
		k := hostUUID{g.Node, g.UUID}
		i, known := p.indexes[k]
		switch {
		case !math.IsNaN(g.index):
			i = int(g.index)
		case !known:
			i = p.next[g.Node]
			p.in.stats.Numbered++
		}
		if !known && len(p.indexes) >= maxTargets {
			return fmt.Errorf("%w: more than %d GPUs", ErrLimit, maxTargets)
		}
		p.indexes[k], g.Index = i, i
		p.next[g.Node] = max(p.next[g.Node], i+1)
	}
	return nil
}

// sameGPU is the longest time between two samples of a UUID on two nodes that are one GPU's: an exporter in a pod has
// another host name after each start.
const sameGPU = time.Hour

// give gives a sample out.
func (p *points) give(g *gathered) error {
	if !math.IsNaN(g.free) && g.Has(MemoryUsed) && !g.Has(MemoryTotal) {
		g.MemoryTotal = g.MemoryUsed + g.free
		g.Known |= MemoryTotal
	}
	if !math.IsNaN(g.number) && g.number > 0 && g.Job == "" && !g.shared {
		g.Job = strconv.FormatFloat(g.number, 'f', -1, 64)
	}
	if g.UUID != "" {
		k := hostUUID{uuid: g.UUID}
		was, ok := p.nodes[k]
		if !ok && len(p.nodes) >= maxTargets {
			return fmt.Errorf("%w: more than %d GPUs", ErrLimit, maxTargets)
		}
		if ok && was.node != g.Node && was.at < g.Time && g.Time-was.at <= sameGPU {
			g.Node = was.node
			p.in.stats.Renamed++
		}
		p.nodes[k] = instantOfNode{g.Node, g.Time}
	}
	if g.Has(Xid) {
		last, old := p.xids[g.GPU]
		if !old && len(p.xids) >= maxTargets {
			return fmt.Errorf("%w: more than %d GPUs", ErrLimit, maxTargets)
		}
		g.newXid(&last)
		p.xids[g.GPU] = last
	}
	if g.Known == 0 {
		return nil
	}
	return p.in.gpu(&g.GPUSample)
}
