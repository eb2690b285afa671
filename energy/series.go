package energy

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/lines"
)

// Series is a step function of time: a value holds from its instant until the next one's.
// Before the first instant the first value holds, after the last the last. nil is none.
type Series struct {
	Name   string // of the file
	at     []time.Time
	values []float64
	sums   []float64 // integral from the first instant to each, in values times hours
	gaps   []Span
	step   time.Duration // the usual time between instants
}

// Span is a time between two instants.
type Span struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// newSeries makes a series of instants in ascending order.
func newSeries(name string, at []time.Time, values []float64) *Series {
	s := &Series{Name: name, at: at, values: values, sums: make([]float64, len(at))}
	var steps []time.Duration
	for i := 1; i < len(at); i++ {
		steps = append(steps, at[i].Sub(at[i-1]))
		s.sums[i] = s.sums[i-1] + float64(values[i-1]*steps[i-1].Hours())
	}
	if len(steps) == 0 {
		return s
	}
	sorted := slices.Sorted(slices.Values(steps))
	s.step = sorted[len(sorted)/2]
	for i, d := range steps {
		if d > s.step+s.step/2 {
			s.gaps = append(s.gaps, Span{at[i].Add(s.step), at[i+1]})
		}
	}
	return s
}

// before is the integral from the first instant until one.
func (s *Series) before(t time.Time) float64 {
	i := max(0, sort.Search(len(s.at), func(i int) bool { return s.at[i].After(t) })-1)
	return s.sums[i] + s.values[i]*t.Sub(s.at[i]).Hours()
}

// Over is the integral of the values from one instant to another, in values times hours.
func (s *Series) Over(from, to time.Time) float64 { return s.before(to) - s.before(from) }

// At is the value at an instant.
func (s *Series) At(t time.Time) float64 {
	return s.values[max(0, sort.Search(len(s.at), func(i int) bool { return s.at[i].After(t) })-1)]
}

// step is a time with one value.
type step struct {
	from  time.Time
	span  time.Duration
	value float64
}

// steps are the parts of a span that is not empty, in order.
func (s *Series) steps(from, to time.Time) (out []step) {
	for at := from; at.Before(to); {
		i := sort.Search(len(s.at), func(i int) bool { return s.at[i].After(at) })
		end := to
		if i < len(s.at) && s.at[i].Before(to) {
			end = s.at[i]
		}
		out = append(out, step{at, end.Sub(at), s.values[max(0, i-1)]})
		at = end
	}
	return out
}

// digest writes the series' identity.
func (s *Series) digest(w io.Writer) {
	fmt.Fprintln(w, len(s.at))
	for i, t := range s.at {
		fmt.Fprintln(w, t.UnixNano(), s.values[i])
	}
}

// Gaps are the parts of a span for which the file has no value of their own.
func (s *Series) Gaps(from, to time.Time) []Span {
	var out []Span
	add := func(a, b time.Time) {
		if a.Before(from) {
			a = from
		}
		if b.After(to) {
			b = to
		}
		if a.Before(b) {
			out = append(out, Span{a, b})
		}
	}
	add(from, s.at[0])
	for _, g := range s.gaps {
		add(g.From, g.To)
	}
	if len(s.at) > 1 { // a single row is a constant
		add(s.at[len(s.at)-1].Add(s.step), to)
	}
	return out
}

// times multiplies two series; nil is 1 throughout.
func (s *Series) times(o *Series) *Series {
	switch {
	case s == nil:
		return o
	case o == nil:
		return s
	}
	at := slices.Concat(s.at, o.at)
	slices.SortFunc(at, time.Time.Compare)
	at = slices.CompactFunc(at, time.Time.Equal)
	values := make([]float64, len(at))
	for i, t := range at {
		values[i] = s.At(t) * o.At(t)
	}
	return newSeries(s.Name, at, values)
}

// Limits of a row's value.
const (
	mostPrice     = 1e6 // $/MWh, either sign
	mostIntensity = 1e5 // g/kWh
)

// ReadPrices reads a CSV of ts,price_per_mwh: the price in $/MWh, which may be negative,
// from an instant on. An instant without an offset is one of the zone; of an hour that
// its clocks repeat, the second is the row below the first.
func ReadPrices(r io.Reader, name string, zone *time.Location) (*Series, error) {
	return readSeries(r, name, zone, "price_per_mwh", "", -mostPrice, mostPrice)
}

// ReadIntensities reads a CSV of ts,zone,g_per_kwh: the carbon intensity of electricity in
// a grid zone, which need not be named if the file has one. Instants are as in ReadPrices.
func ReadIntensities(r io.Reader, name, grid string, zone *time.Location) (*Series, error) {
	return readSeries(r, name, zone, "g_per_kwh", grid, 0, mostIntensity)
}

// readSeries reads the rows of a CSV with a header that names ts, a column of values and
// possibly zone.
func readSeries(r io.Reader, name string, zone *time.Location, column, grid string, least, most float64) (
	*Series, error) {
	var at []time.Time
	var values []float64
	var last time.Time
	zones := map[string]bool{}
	err := lines.Rows(r, []string{"ts", column}, func(row map[string]string) (err error) {
		z, zoned := row["zone"]
		if zoned {
			zones[z] = true
		}
		switch {
		case grid == "" && len(zones) > 1:
			return fmt.Errorf("zone: there are several (%s): name one", listed(zones))
		case grid != "" && !zoned:
			return fmt.Errorf("there is no column zone to find %q in", grid)
		case grid != "" && z != grid:
			return nil
		}
		if last, err = nextInstant(row["ts"], zone, last); err != nil {
			return fmt.Errorf("ts: %w", err)
		}
		v, err := strconv.ParseFloat(row[column], 64)
		if err != nil || !(v >= least && v <= most) {
			return fmt.Errorf("%s: %q is not a number from %g to %g", column, row[column], least, most)
		}
		at, values = append(at, last), append(values, v)
		return nil
	})
	switch {
	case err != nil:
	case len(at) == 0 && grid != "" && len(zones) > 0:
		err = fmt.Errorf("zone: %q is not in the file; there are %s", grid, listed(zones))
	case len(at) == 0:
		err = errors.New("has no row below the header")
	default:
		return newSeries(name, at, values), nil
	}
	return nil, fmt.Errorf("%s: %w", name, err)
}

func listed(set map[string]bool) string {
	var names []string
	for n := range set {
		names = append(names, strconv.Quote(n))
	}
	slices.Sort(names)
	if len(names) > 8 {
		names = append(names[:8], "...")
	}
	return strings.Join(names, ", ")
}

var localForms = []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04",
	"2006-01-02"}

// nextInstant is parseInstant for an instant of a row that is after the last one's.
func nextInstant(text string, zone *time.Location, last time.Time) (time.Time, error) {
	t, err := parseInstant(text, zone, last)
	if err == nil && !last.IsZero() && !t.After(last) {
		err = fmt.Errorf("%s is not after the row above: sort the rows", text)
	}
	return t, err
}

// parseInstant reads an instant: RFC 3339, seconds since 1970, or a clock time of the zone
// after the last instant.
func parseInstant(text string, zone *time.Location, last time.Time) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t, err = time.Parse("2006-01-02 15:04:05Z07:00", text)
	}
	if err != nil {
		if unix, bad := strconv.ParseFloat(text, 64); bad == nil && math.Abs(unix) < 9e9 {
			return inRange(time.Unix(0, 0).Add(time.Duration(unix * float64(time.Second))))
		}
	}
	for _, form := range localForms {
		if err == nil {
			break
		}
		if t, err = time.ParseInLocation(form, text, zone); err != nil {
			continue
		}
		if t.Format(form) != text {
			return t, fmt.Errorf("%q does not exist in %s: its clocks skip it", text, zone)
		}
		// Of a clock time that comes twice, the first that is after the last instant.
		for _, d := range []time.Duration{-time.Hour, time.Hour} {
			other := t.Add(d)
			if other.Format(form) != text {
				continue
			}
			first, second := t, other
			if other.Before(t) {
				first, second = other, t
			}
			if t = first; !last.IsZero() && !first.After(last) {
				t = second
			}
			break
		}
	}
	if err != nil {
		return t, fmt.Errorf("%q is no instant: want RFC 3339, seconds since 1970, or a clock time such as "+
			"2024-10-27 02:00", text)
	}
	return inRange(t)
}

// inRange refuses instants that spans cannot reach from others.
func inRange(t time.Time) (time.Time, error) {
	if t = t.UTC(); t.Year() < 1900 || t.Year() >= 2150 {
		return t, errors.New("the instant is out of range: want a year from 1900 to 2149")
	}
	return t, nil
}
