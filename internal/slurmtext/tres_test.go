package slurmtext_test

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/internal/slurmtext"
)

// TestParseTRES has rows as sacct and scontrol print them, and texts that Slurm does not write.
func TestParseTRES(t *testing.T) {
	for text, want := range map[string]struct{ milliGPUs, shards, milliCPUs, memory int64 }{
		"": {},
		"billing=16,cpu=16,gres/gpu=4,mem=62.5G,node=1":   {4000, 0, 16_000, 62.5 * (1 << 30)},
		"cpu=2,gres/gpu:a100=2,gres/gpu:v100=1":           {3000, 0, 2000, 0},
		"gres/gpu=4,gres/gpu:a100=2":                      {4000, 0, 0, 0}, // a type that is not counted
		"gres/gpu=2,gres/gpu:1g.10gb=2":                   {286, 0, 0, 0},
		"gres/gpu:1g.10gb=2":                              {286, 0, 0, 0},
		"gres/gpu=5,gres/gpu:3g.20gb=1,gres/gpu:1g.5gb=2": {2714, 0, 0, 0}, // two whole GPUs and 5/7
		"gres/gpu=1,gres/gpu:nvidia_a100_7g.40gb=1":       {1000, 0, 0, 0},
		"gres/gpu:a30_1g.6gb=3":                           {750, 0, 0, 0},
		"gres/gpu:1g.5gb+me=1":                            {143, 0, 0, 0},
		"gres/mps=30":                                     {300, 0, 0, 0},
		"gres/shard=3,gres/gpu=1":                         {1000, 3, 0, 0},
		"GRES/GPU=2,CPU=1":                                {2000, 0, 1000, 0},
		"mem=0":                                           {},
		"mem=512":                                         {0, 0, 0, 512 << 20}, // mebibytes
		"mem=500000M,energy=18446744073709551614,license/abc=NONE": {0, 0, 0, 500_000 << 20},
		"mem=1.50T,pages=0,vmem=1K":                                {0, 0, 0, 3 << 39},
		"gres/gpu=1000000":                                         {1_000_000_000, 0, 0, 0},
		"gres/gpuutil=3,gres/gpumem=80G":                           {},
	} {
		got, err := slurmtext.ParseTRES(text)
		if err != nil || got.GPUs.NearestMilli() != want.milliGPUs || got.Shards != want.shards ||
			got.MilliCPUs != want.milliCPUs || got.Memory != want.memory {
			t.Errorf("%q is %+v (%v), want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]error{
		"gres/gpu=x": slurmtext.ErrGPUs, "gres/gpu": slurmtext.ErrGPUs, "gres/gpu=1.5": slurmtext.ErrGPUs,
		"gres/gpu=NONE": slurmtext.ErrGPUs, "gres/gpu:a100=-1": slurmtext.ErrNegative,
		"gres/mps=-5":      slurmtext.ErrNegative,
		"gres/gpu=1000001": slurmtext.ErrTooWide, "gres/gpu=99999999999999999999": slurmtext.ErrTooWide,
		"gres/gpu:a=600000,gres/gpu:b=600000": slurmtext.ErrTooWide,
		"gres/gpu=-99999999999999999999":      slurmtext.ErrGPUs,
		"cpu=-1":                              slurmtext.ErrCPUs, "cpu=": slurmtext.ErrCPUs,
		"cpu=1000001": slurmtext.ErrCPUs, "cpu=.": slurmtext.ErrCPUs,
		"mem=hello": slurmtext.ErrMemory, "mem=9999999P": slurmtext.ErrMemory, "mem=": slurmtext.ErrMemory,
		"mem=1.2345G": slurmtext.ErrMemory, "mem=1E": slurmtext.ErrMemory,
	} {
		if got, err := slurmtext.ParseTRES(text); !errors.Is(err, want) {
			t.Errorf("%q: %v, %+v; want %v", text, err, got, want)
		}
	}
}

// TestMIGSlices: the model says how many slices a GPU has, and where there is none, the profile.
func TestMIGSlices(t *testing.T) {
	for model, want := range map[string]struct {
		slices, of int64
		unsure     bool
	}{
		"1g.5gb": {1, 7, false}, "nvidia_a100_3g.20gb": {3, 7, false}, "1g.5gb+me": {1, 7, false},
		"h100_1g.24gb": {1, 7, false}, "1g.24gb": {1, 7, true}, "2g.48gb": {2, 4, true}, "7g.141gb": {7, 7, false},
		"nvidia_rtx_pro_6000_blackwell_server_edition_1g.24gb": {1, 4, false}, "RTX_PRO_5000_2g.48gb": {2, 2, false},
		"4g.96gb": {4, 4, false}, "1g.16gb": {1, 2, false}, "a30_1g.6gb": {1, 4, false}, "2g.12gb+me": {2, 4, false},
		"1c.3g.20gb": {1, 7, false}, "a100_2c.4g.40gb": {2, 7, false}, "1g.12gb": {1, 7, false},
		"a100": {}, "1g.": {}, "tesla_12g.5gb": {}, "g.5gb": {}, "8g.80gb": {}, "1g.xgb": {},
	} {
		slices, of, unsure := slurmtext.MIGSlices(model)
		if slices != want.slices || of != want.of || unsure != want.unsure {
			t.Errorf("%s: %d of %d, unsure: %v; want %+v", model, slices, of, unsure, want)
		}
	}
}

// TestJobTRES: a job that waits has what it requests, one that has started what it got.
func TestJobTRES(t *testing.T) {
	for _, c := range []struct {
		alloc, requested, column string
		milliGPUs                int64
	}{
		{"cpu=1,gres/gpu=2", "gres/gpu=4", "AllocTRES", 2000},
		{"", "gres/gpu=4", "ReqTRES", 4000},
		{"cpu=1", "gres/mps=5", "ReqTRES", 50},
		{"cpu=1", "cpu=2", "AllocTRES", 0},
		{"gres/gpu=1", "gres/gpu=x", "AllocTRES", 1000}, // it does not count
	} {
		got, column, err := slurmtext.JobTRES(c.alloc, c.requested)
		if err != nil || column != c.column || got.GPUs.NearestMilli() != c.milliGPUs {
			t.Errorf("%+v: %+v of %s, %v", c, got, column, err)
		}
	}
	for want, texts := range map[string][2]string{"AllocTRES": {"gres/gpu=x", ""}, "ReqTRES": {"cpu=1", "gres/gpu=x"}} {
		if _, column, err := slurmtext.JobTRES(texts[0], texts[1]); err == nil || column != want {
			t.Errorf("%q: %s, %v", texts, column, err)
		}
	}
}

// TestGPUType: a type of GPUs is asked for if all of them are to be of it.
func TestGPUType(t *testing.T) {
	for tres, want := range map[string]string{"": "", "cpu=1,gres/gpu=2": "", "cpu=1,gres/gpu:a100=2,gres/gpu=2": "a100",
		"gres/gpu=2,gres/gpu:a100=2": "a100", "gres/gpu:h100=1": "h100", "gres/gpu=3,gres/gpu:a100=1": "",
		"gres/gpu:a100=1,gres/gpu:v100=1": "", "gres/gpu=1,gres/gpu:1g.10gb=1": "", "GRES/GPU:a100=1,gres/mps=5": "a100"} {
		if got := slurmtext.GPUType(tres); got != want {
			t.Errorf("%s: %q, want %q", tres, got, want)
		}
	}
}

// TestShards: shards are parts of a GPU of which the site knows the number.
func TestShards(t *testing.T) {
	tres, err := slurmtext.ParseTRES("gres/gpu=1,gres/shard=3")
	if err != nil {
		t.Fatal(err)
	}
	for per, want := range map[int]int64{8: 1375, 3: 2000, 1: 4000, 7: 1429, 1 << 30: 1000} {
		if s, err := tres.Share(per); err != nil || s.NearestMilli() != want {
			t.Errorf("of %d: %d, %v; want %d", per, s.NearestMilli(), err, want)
		}
	}
	if _, err := tres.Share(0); !errors.Is(err, slurmtext.ErrShards) {
		t.Error(err)
	}
	for _, text := range []string{"gres/shard:a=2,gres/shard=3,gres/shard:b=1,gres/mps=50,gres/mps:a=50",
		"gres/shard:a=3,gres/mps:a=50"} {
		if typed, err := slurmtext.ParseTRES(text); err != nil || typed.Shards != 3 ||
			typed.GPUs.NearestMilli() != 500 {
			t.Errorf("%s: %+v, %v", text, typed, err)
		}
	}
	small, _ := slurmtext.ParseTRES("gres/shard=1")
	if s, err := small.Share(1 << 30); err != nil || s.IsZero() || s.NearestMilli() != 1 {
		t.Errorf("a small share is %d, %v", s.NearestMilli(), err)
	}
	wide, _ := slurmtext.ParseTRES("gres/gpu=999999,gres/shard=2")
	if _, err := wide.Share(1); !errors.Is(err, slurmtext.ErrTooWide) {
		t.Error(err)
	}
}

// TestShareIsExact: sums of shares are those of fractions, and only the methods that say so round.
func TestShareIsExact(t *testing.T) {
	type part struct {
		text string
		of   *big.Rat
	}
	parts := []part{{"gres/gpu:a100=%d", big.NewRat(1, 1)}, {"gres/gpu:1g.10gb=%d", big.NewRat(1, 7)},
		{"gres/gpu:3g.20gb=%d", big.NewRat(3, 7)}, {"gres/gpu:a30_1g.6gb=%d", big.NewRat(1, 4)},
		{"gres/gpu:2g.12gb=%d", big.NewRat(2, 4)}, {"gres/mps=%d", big.NewRat(1, 100)}}
	rapid.Check(t, func(t *rapid.T) {
		want, sum := new(big.Rat), slurmtext.Share{}
		var items []string
		for _, p := range rapid.SliceOfN(rapid.SampledFrom(parts), 0, 6).Draw(t, "parts") {
			n := rapid.Int64Range(0, 5000).Draw(t, "n")
			items = append(items, fmt.Sprintf(p.text, n))
			one, err := slurmtext.ParseTRES(items[len(items)-1])
			if err != nil {
				t.Fatal(err)
			}
			sum = sum.Plus(one.GPUs)
			want.Add(want, new(big.Rat).Mul(p.of, new(big.Rat).SetInt64(n)))
		}
		got, err := slurmtext.ParseTRES(strings.Join(items, ","))
		if err != nil || got.GPUs != sum {
			t.Fatalf("%q: %v, %v; the sum of its parts is %v", items, got.GPUs, err, sum)
		}
		for unit, n := range map[int64]int64{1000: sum.NearestMilli(), 1: int64(sum.NearestGPUs())} {
			off := new(big.Rat).Sub(new(big.Rat).SetFrac64(n, unit), want)
			if least := n == 1 && off.Sign() > 0; off.Abs(off).Cmp(big.NewRat(1, 2*unit)) > 0 && !least ||
				n == 0 && want.Sign() > 0 {
				t.Errorf("%q are %s GPUs, and not %d/%d", items, want.FloatString(5), n, unit)
			}
		}
		if sum.IsZero() != (want.Sign() == 0) {
			t.Errorf("%q: IsZero is %v", items, sum.IsZero())
		}
	})
}

// TestParseNodeGPUs: instances are the GPUs that their slices make, and shards and MPS are parts of GPUs.
func TestParseNodeGPUs(t *testing.T) {
	for text, want := range map[string]struct {
		gpus   int
		model  string
		shards int64
		mig    string
	}{
		"":                                     {},
		"(null)":                               {},
		"gpu":                                  {gpus: 1},
		"gpu:8(S:0-1)":                         {gpus: 8},
		"gpu:a100:4(S:0,1),shard:a100:32(S:0)": {4, "a100", 32, ""},
		"gpu:a100:2,gpu:v100:2":                {gpus: 4},
		"gpu:a100:2,gpu:a100:2":                {4, "a100", 0, ""},
		"gpu:a100:2,gpu:v100:2,gpu:v100:1":     {gpus: 5},
		"gpu:a100:2,gpu:3":                     {gpus: 5},
		"gpu:a100_1g.5gb:14":                   {2, "", 0, "a100_1g.5gb"},
		"gpu:1g.10gb:2":                        {1, "", 0, "1g.10gb"},
		"gpu:a100:2,gpu:nvidia_a100_3g.20gb:2": {3, "", 0, "nvidia_a100_3g.20gb"},
		"gpu:2,mps:200,craynetwork:4":          {gpus: 2},
		"gpu:v100:no_consume:2":                {2, "v100", 0, ""},
		"gpu:0":                                {},
	} {
		got, err := slurmtext.ParseNodeGPUs(text)
		if err != nil || got.GPUs.NearestGPUs() != want.gpus || got.Model != want.model || got.Shards != want.shards ||
			strings.Join(got.MIG, " ") != want.mig {
			t.Errorf("%q is %+v with %d GPUs (%v), want %+v", text, got, got.GPUs.NearestGPUs(), err, want)
		}
	}
	for _, text := range []string{"gpu:x", "gpu:8(S:0", ":8", "gpu:a:b:8", "gpu:-1", "gpu:8,", "gpu:", "gpu:2000000",
		"gpu:2(IDX:a)", "gpu:9999999999999999P"} {
		if got, err := slurmtext.ParseNodeGPUs(text); (err == nil) != (text == "gpu:8,") {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// TestParseGres: items have types and counts with suffixes.
func TestParseGres(t *testing.T) {
	got, err := slurmtext.ParseGres("gpu:a100:3(IDX:0-1,5),gpu:(null):0(IDX:N/A),bandwidth:lustre:no_consume:4G," +
		"mps:a100:50(20/100)")
	want := []slurmtext.Gres{{Name: "gpu", Type: "a100", Count: 3}, {Name: "gpu"},
		{Name: "bandwidth", Type: "lustre", Count: 4 << 30}, {Name: "mps", Type: "a100", Count: 50}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v (%v), want %+v", got, err, want)
	}
}
