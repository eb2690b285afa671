package trace

import (
	"bytes"

	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/workload"
)

// tres is what Slurm's trackable resources say of a job, summed over its nodes.
type tres struct {
	gpus              workload.MilliGPU
	milliCPUs, memory int64
}

// tres reads resources such as billing=2,cpu=2,gres/gpu=4,gres/gpu:a100=4,mem=1G.
// GPUs are the total if it is there, else the sum over the types. Shares count in
// thousandths: of MIG instances (gres/gpu:1g.10gb) their slices of a GPU, of
// gres/mps hundredths, of gres/shard Options.Shards to a GPU.
func (r *csvRow) tres(i int) (t tres) {
	var total, typed, instances int64 // a MIG instance counts as one in the total
	var shares int64                  // 84,000 to a GPU: 1/7 and 1/4 of 1/1000 of it are whole
	for b := r.value(i); len(b) > 0; {
		item, rest, _ := bytes.Cut(b, []byte{','})
		b = rest
		name, amount, _ := bytes.Cut(item, []byte{'='})
		count := func(most int64) int64 {
			n, reason := parseDecimal(amount, 0)
			switch {
			case reason != "":
				r.fault(i, "has a number of GPUs that is no whole number")
			case n < 0:
				r.fault(i, "has a negative number of GPUs")
			case n > most:
				r.fault(i, tooWide)
			default:
				return n
			}
			return 0
		}
		kind, model, _ := bytes.Cut(name, []byte{':'})
		switch string(kind) {
		case "gres/gpu":
			n := count(workload.MaxGPUs)
			slices, of := slurmtext.MIGSlices(model)
			switch {
			case len(model) == 0:
				total = n
			case slices > 0:
				instances += n
				shares += n * wholeShares / of * slices
			default:
				typed += n
			}
		case "gres/mps":
			shares += count(100*workload.MaxGPUs) * (wholeShares / 100)
		case "gres/shard":
			n := count(workload.MaxGPUs)
			if r.in.opts.Shards <= 0 && n > 0 {
				r.fault(i, "has shards of GPUs, and how many a GPU has is not said (--shards-per-gpu)")
				continue
			}
			shares += n * wholeShares / int64(max(1, r.in.opts.Shards))
		case "cpu":
			n, reason := parseDecimal(amount, 3)
			if reason != "" || n < 0 || n > workload.MaxMilliCPUs {
				r.fault(i, "has a number of CPUs that is none")
			}
			t.milliCPUs = n
		case "mem":
			n, ok := parseMemory(amount)
			if !ok {
				r.fault(i, "has a memory that is not such as 62.5G")
			}
			t.memory = n
		}
	}
	whole := typed
	if total > 0 {
		whole = max(0, total-instances)
	}
	milli := 1000*whole + (shares+wholeShares/2000)/(wholeShares/1000)
	if shares > 0 {
		milli = max(1, milli)
	}
	if milli > 1000*workload.MaxGPUs {
		r.fault(i, tooWide)
	}
	t.gpus = workload.MilliGPU(milli)
	return t
}

const wholeShares = 84_000

// parseMemory reads bytes with a suffix, of which mebibytes are the default.
func parseMemory(b []byte) (int64, bool) {
	shift := 20
	if n := len(b); n > 0 {
		if at := bytes.IndexByte([]byte("KMGTP"), b[n-1]); at >= 0 {
			shift, b = 10*(at+1), b[:n-1]
		}
	}
	n, reason := parseDecimal(b, 3)
	if reason != "" || n < 0 || n > workload.MaxMemory>>shift*1000 {
		return 0, false
	}
	return n << shift / 1000, true
}
