package energy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// Tariff turns the holding of jobs into energy, cost and carbon. Its JSON form is complete.
type Tariff struct {
	Assumptions *Assumptions `json:"assumptions"`
	// Prices in $/MWh and Intensities in g/kWh; nil means the constants.
	Prices      *Series `json:"prices,omitempty"`
	Intensities *Series `json:"intensities,omitempty"`
}

// Meter measures the power of jobs on a cluster. zero is the workload's.
func (t *Tariff) Meter(c workload.Cluster, zero time.Time) (*Meter, error) {
	return NewMeter(t.Assumptions, c, zero, t.Prices, t.Intensities)
}

// Between is a tariff that has the same values from one instant to another.
func (t *Tariff) Between(from, to time.Time) *Tariff {
	return &Tariff{t.Assumptions, t.Prices.between(from, to), t.Intensities.between(from, to)}
}

// UnmarshalJSON reads a tariff and refuses constants that Read refuses.
func (t *Tariff) UnmarshalJSON(text []byte) error {
	type plain Tariff
	var read plain
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	if read.Assumptions == nil {
		return errors.New("energy: a tariff without assumptions")
	}
	for name := range Default().Constants {
		if _, ok := read.Assumptions.Constants[name]; !ok {
			return fmt.Errorf("energy: a tariff without the constant %s", name)
		}
	}
	if err := read.Assumptions.check(); err != nil {
		return fmt.Errorf("energy: %w", err)
	}
	*t = Tariff(read)
	return nil
}

// between has the steps of a span, and the one before it.
func (s *Series) between(from, to time.Time) *Series {
	if s == nil {
		return nil
	}
	first, _ := slices.BinarySearchFunc(s.at, from, func(at, t time.Time) int {
		if at.After(t) {
			return 1
		}
		return -1
	})
	last, _ := slices.BinarySearchFunc(s.at, to, time.Time.Compare)
	first = max(0, first-1)
	last = max(last, first+1)
	return newSeries(s.Name, s.at[first:last], s.values[first:last])
}

// seriesJSON is the JSON form of a Series.
type seriesJSON struct {
	Name   string      `json:"name"`
	At     []time.Time `json:"at"`
	Values []float64   `json:"values"`
}

// MarshalJSON writes the steps.
func (s *Series) MarshalJSON() ([]byte, error) {
	return json.Marshal(seriesJSON{s.Name, s.at, s.values})
}

// UnmarshalJSON reads the steps, which are in order and finite.
func (s *Series) UnmarshalJSON(text []byte) error {
	var read seriesJSON
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	if len(read.At) == 0 || len(read.At) != len(read.Values) ||
		!slices.IsSortedFunc(read.At, time.Time.Compare) {
		return fmt.Errorf("energy: %s: %d instants in order with as many values are wanted", read.Name, len(read.At))
	}
	if slices.ContainsFunc(read.Values, func(v float64) bool { return math.Abs(v) > mostPrice }) {
		return fmt.Errorf("energy: %s: a value is beyond %g", read.Name, mostPrice)
	}
	*s = *newSeries(read.Name, read.At, read.Values)
	return nil
}

// Files name the files of a tariff. Empty names mean the built-in constants.
type Files struct {
	Power  string `yaml:"power"`  // constants, as Read reads them
	Prices string `yaml:"prices"` // as ReadPrices reads them
	Carbon string `yaml:"carbon"` // as ReadIntensities reads them
	// CarbonZone is a zone of Carbon, needed if it has several.
	CarbonZone string `yaml:"carbon_zone"`
}

// Read reads the files. Instants without an offset are of the zone. Errors begin with the key of the file.
func (f *Files) Read(zone *time.Location) (t *Tariff, err error) {
	t = &Tariff{Assumptions: Default()}
	if f.Power != "" {
		if t.Assumptions, err = readFile(f.Power, func(r io.Reader) (*Assumptions, error) {
			return Read(r, f.Power)
		}); err != nil {
			return nil, fmt.Errorf("power: %w", err)
		}
	}
	if f.Prices != "" {
		if t.Prices, err = readFile(f.Prices, func(r io.Reader) (*Series, error) {
			return ReadPrices(r, f.Prices, zone)
		}); err != nil {
			return nil, fmt.Errorf("prices: %w", err)
		}
	}
	if f.Carbon != "" {
		if t.Intensities, err = readFile(f.Carbon, func(r io.Reader) (*Series, error) {
			return ReadIntensities(r, f.Carbon, f.CarbonZone, zone)
		}); err != nil {
			return nil, fmt.Errorf("carbon: %w", err)
		}
	}
	return t, nil
}

// readFile reads a file, which may be compressed, and whose name the reader's errors have.
func readFile[T any](path string, read func(io.Reader) (*T, error)) (*T, error) {
	in, err := atomicfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return read(in)
}

// Source is a tariff whose files are read again once they changed. It is safe for concurrent use.
type Source struct {
	path string
	log  *slog.Logger

	mu     sync.Mutex
	tariff *Tariff
	files  []string // that were read, or tried
	seen   []stamp  // of files
}

// stamp is a version of a file.
type stamp struct {
	modified time.Time
	size     int64
}

// OpenSource reads a YAML file of Files, whose names are relative to its folder, and the files that it names.
func OpenSource(path string, log *slog.Logger) (*Source, error) {
	s := &Source{path: path, log: log}
	if err := s.read(); err != nil {
		return nil, err
	}
	return s, nil
}

// Tariff is the tariff of the files as they are, or as they were when they could last be read.
func (s *Source) Tariff() *Tariff {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(stamps(s.files), s.seen) {
		if err := s.read(); err != nil { // logged once for each version
			s.log.Error("energy: the files changed and cannot be read: the tariff stays", "err", err)
		} else {
			s.log.Info("energy: the files changed and were read", "file", s.path)
		}
	}
	return s.tariff
}

// read reads the files, unless one is wrong. The tried files are watched from then on.
func (s *Source) read() error {
	s.files = []string{s.path}
	s.seen = stamps(s.files) // before they are read, so that a later change is seen
	text, err := os.ReadFile(s.path)
	if err != nil {
		return err
	}
	var f struct {
		Files    `yaml:",inline"`
		Timezone string `yaml:"timezone"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	switch err := d.Decode(&f); {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s: is empty: name files, such as prices: prices.csv, or write {} for the built-in constants",
			s.path)
	case err != nil:
		return fmt.Errorf("%s: %w", s.path, err)
	}
	for _, name := range []*string{&f.Power, &f.Prices, &f.Carbon} {
		if *name != "" {
			if !filepath.IsAbs(*name) {
				*name = filepath.Join(filepath.Dir(s.path), *name)
			}
			s.files, s.seen = append(s.files, *name), append(s.seen, stamps([]string{*name})...)
		}
	}
	zone, err := trace.ParseZone(cmp.Or(f.Timezone, "UTC"))
	if err != nil {
		return fmt.Errorf("%s: timezone: %w", s.path, err)
	}
	if f.CarbonZone != "" && f.Carbon == "" {
		return fmt.Errorf("%s: carbon_zone: is a zone of carbon, which is missing", s.path)
	}
	t, err := f.Files.Read(zone)
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	s.tariff = t
	return nil
}

func stamps(files []string) []stamp {
	out := make([]stamp, len(files))
	for i, name := range files {
		if info, err := os.Stat(name); err == nil {
			out[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return out
}
