package arrivals

import (
	"bytes"
	"compress/gzip"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

const threeBins = "time,unix,submit_job_all,submit_gpu_job\n2020-04-01T00:00:00Z,1585699200,6,3\n2020-04-01T00:10:00Z,1585699800,4,3\n2020-04-01T00:20:00Z,1585700400,9,0\n"

func TestReadCounts(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write([]byte(threeBins))
	z.Close()
	for name, text := range map[string]string{
		"plain": threeBins, "gzip": packed.String(),
		"by time alone": "time,arrivals\n2020-04-01T00:00:00Z,3\n\n2020-04-01T00:10:00Z, 3\n2020-04-01T00:20:00Z,0\n",
		"marked UTF-8":  "\ufeff" + threeBins,
	} {
		zero, bin, counts, err := ReadCounts(strings.NewReader(text), name)
		if err != nil || zero.Unix() != 1585699200 || bin != 10*time.Minute || !slices.Equal(counts, []int{3, 3, 0}) {
			t.Errorf("%s: %v %v %v %v", name, zero, bin, counts, err)
		}
	}
}

func TestReadCountsRefuses(t *testing.T) {
	head := "unix,count\n0,1\n600,2\n"
	for _, c := range []struct{ text, want string }{
		{"", "no table"},
		{"job_id,submit_time\n", "no table"},
		{"time,users\n", "no table"},
		{"unix,count\n0,1\n", "at least two"},
		{head + "1200\n", "line 4: 1 fields"},
		{head + "1800,1\n", "line 4: 1970-01-01T00:30:00Z comes 20m0s after"},
		{head + "600,1\n", "line 4"},
		{head + "1200,-1\n", `line 4: count: "-1"`},
		{head + "1200,1.5\n", `"1.5"`},
		{head + "1200,NaN\n", `"NaN"`},
		{head + "1200,1e12\n", `"1e12"`},
		{head + "soon,1\n", `line 4: unix: "soon"`},
		{"time,count\nsoon,1\n", `line 2: time: "soon"`},
		{"unix,count\n0,1\n7,1\n", "bins of 7s"},
		{"unix,count\n0,1\n86400,1\n", "bins of 24h"},
		{head + strings.Repeat("1", 70000), "too long"},
		{"\x1f\x8bnothing", "gzip"},
	} {
		_, _, _, err := ReadCounts(strings.NewReader(c.text), "f.csv")
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "f.csv: line ") {
			t.Errorf("%.40q: %v; want %q", c.text, err, c.want)
		}
		if noTable := errors.Is(err, ErrNotCounts); noTable != (c.want == "no table") {
			t.Errorf("%.40q: is no table of counts: %v", c.text, noTable)
		}
	}
}

func FuzzReadCounts(f *testing.F) {
	f.Add([]byte(threeBins))
	f.Add([]byte("unix,count\n0,1\n600,2\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		zero, bin, counts, err := ReadCounts(bytes.NewReader(data), "f")
		if err != nil {
			return
		}
		// Input makes a history, or an error that says why not.
		h, err := FromCounts(zero, 0, counts, Grid{Bin: bin})
		if err == nil && h.End() != time.Duration(len(counts))*bin {
			t.Errorf("%d bins of %v end at %v", len(counts), bin, h.End())
		}
	})
}
