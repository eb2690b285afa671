package slurmtext

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
)

// TRES are the trackable resources of a job, summed over its nodes.
type TRES struct {
	// GPUs are the whole GPUs and MIG instances of gres/gpu, and gres/mps in hundredths of a GPU.
	GPUs Share
	// Shards are the units of gres/shard. See [TRES.Share].
	Shards int64
	// MilliCPUs are thousandths of CPUs, Memory is in bytes; 0 if the text lacks them.
	MilliCPUs, Memory int64
	// Numbered says that resources have numbers in place of names, so that which one GPUs are is a guess.
	Numbered bool
	// Unsure is a type of MIG instance of which the share of a GPU is not certain: see MIGSlices.
	Unsure string
}

// The bounds of a job's CPUs and memory.
const (
	maxMilliCPUs = 1_000_000_000
	maxMemory    = 1 << 50
)

// Errors of ParseTRES and TRES.Share.
var (
	ErrGPUs     = errors.New("has a number of GPUs that is no whole number")
	ErrNegative = errors.New("has a negative number of GPUs")
	ErrTooWide  = errors.New("is more than a million GPUs")
	ErrCPUs     = errors.New("has a number of CPUs that is none")
	ErrMemory   = errors.New("has a memory that is not such as 62.5G")
	ErrShards   = errors.New("has shards of GPUs, and how many a GPU has is not said (--shards-per-gpu)")
)

// ParseTRES reads resources such as billing=2,cpu=2,gres/gpu=4,gres/gpu:a100=4,mem=1G; other resources are left out.
// GPUs are the total if it is there, less the MIG instances, each of which counts as one in it; otherwise the sum
// over the types, as of mps and shards. slurmdb_make_tres_string_from_simple in src/common/slurmdb_defs.c writes
// whole numbers, and a memory with a unit from mebibytes up (convert_num_unit2 in src/common/slurm_protocol_api.c);
// gres_stepmgr_set_job_tres_cnt in src/stepmgr/gres_stepmgr.c counts totals and types. Names are in any case, as
// xstrcasecmp compares them there. The tables of slurmdbd have numbers in their place (1=2,2=1024,1001=4):
// slurm/slurmdb.h has those below 1000, and the resources of AccountingStorageTRES follow from 1001 on, the first of
// which is taken for gres/gpu.
func ParseTRES(text string) (TRES, error) {
	var t TRES
	var total, typed, instances int64
	var mps, shards [2]int64 // in total, and of the types
	var err error
	for item := range strings.SplitSeq(text, ",") {
		name, amount, _ := strings.Cut(item, "=")
		kind, model, isTyped := strings.Cut(name, ":")
		of := 0
		if isTyped {
			of = 1
		}
		if name != "" && name[0] >= '0' && name[0] <= '9' {
			t.Numbered, kind = true, numbered[name]
		}
		var n int64
		switch strings.ToLower(kind) {
		case "gres/gpu":
			n, err = count(amount, maxGPUs)
			share, mig := gpusOf(n, model)
			switch {
			case model == "":
				total = n
			case mig:
				instances += n
				t.GPUs = t.GPUs.Plus(share)
				if _, _, unsure := MIGSlices(model); unsure {
					t.Unsure = model
				}
			default:
				typed += n
			}
		case "gres/mps":
			n, err = count(amount, 100*maxGPUs)
			mps[of] += n
		case "gres/shard":
			n, err = count(amount, maxGPUs)
			shards[of] += n
		case "cpu":
			if t.MilliCPUs, err = decimal(amount, 3); err != nil || t.MilliCPUs > maxMilliCPUs {
				err = ErrCPUs
			}
		case "mem":
			t.Memory, err = ParseMemory(amount)
		}
		if err != nil {
			return TRES{}, err
		}
	}
	t.Shards = cmp.Or(shards[0], shards[1])
	t.GPUs = t.GPUs.Plus(fraction(cmp.Or(mps[0], mps[1]), 100))
	whole := typed
	if total > 0 {
		whole = max(0, total-instances)
	}
	if t.GPUs = t.GPUs.Plus(GPUs(whole)); t.GPUs.parts > maxGPUs*partsPerGPU || t.Shards > maxGPUs {
		return TRES{}, ErrTooWide
	}
	return t, nil
}

// numbered are the resources that matter by their number.
var numbered = map[string]string{"1": "cpu", "2": "mem", "1001": "gres/gpu"}

// JobTRES reads the resources of a job by its columns AllocTRES and ReqTRES: those allocated, or where they have no GPU
// those requested. AllocTRES is empty while a job waits (as_mysql_job.c). column is the column of an error.
func JobTRES(alloc, requested string) (t TRES, column string, err error) {
	if t, err = ParseTRES(alloc); err != nil || t.HasGPUs() {
		return t, "AllocTRES", err
	}
	asked, err := ParseTRES(requested)
	if err == nil && !asked.HasGPUs() {
		return t, "AllocTRES", nil
	}
	return asked, "ReqTRES", err
}

// GPUType returns the type of all the GPUs of resources; empty if they have none, several, or MIG instances.
func GPUType(tres string) string {
	all, found := int64(0), ""
	for item := range strings.SplitSeq(tres, ",") {
		name, amount, _ := strings.Cut(item, "=")
		kind, model, _ := strings.Cut(name, ":")
		n, err := strconv.ParseInt(amount, 10, 64)
		if !strings.EqualFold(kind, "gres/gpu") || err != nil {
			continue
		}
		if model == "" {
			all += n
			continue
		}
		if _, mig := gpusOf(n, model); mig || found != "" {
			return ""
		}
		found, all = model, all-n
	}
	if all > 0 { // others are of any type
		return ""
	}
	return found
}

// HasGPUs reports whether there are GPUs or shares of them.
func (t TRES) HasGPUs() bool { return !t.GPUs.IsZero() || t.Shards > 0 }

// Share returns the GPUs of a job on a cluster whose GPUs have a number of shards each, 0 if that is not known: shards
// are an error then.
func (t TRES) Share(shardsPerGPU int) (Share, error) {
	if t.Shards == 0 {
		return t.GPUs, nil
	}
	if shardsPerGPU <= 0 {
		return Share{}, ErrShards
	}
	s := t.GPUs.Plus(fraction(t.Shards, int64(shardsPerGPU)))
	if s.IsZero() {
		s = Share{1}
	}
	if s.parts > maxGPUs*partsPerGPU {
		return Share{}, ErrTooWide
	}
	return s, nil
}

// count reads a number of GPUs or of parts of them.
func count(text string, most int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) && text[0] != '-', err == nil && n > most:
		return 0, ErrTooWide
	case err == nil && n < 0:
		return 0, ErrNegative
	case err != nil:
		return 0, ErrGPUs
	}
	return n, nil
}

// ParseMemory reads bytes with a suffix of K, M, G, T or P, of which M is the default.
func ParseMemory(text string) (int64, error) {
	text, shift := suffixed(text, 20)
	n, err := decimal(text, 3)
	if err != nil || n > maxMemory>>shift*1000 {
		return 0, ErrMemory
	}
	return n << shift / 1000, nil
}

// suffixed cuts a suffix of K, M, G, T or P off, and returns its power of two; without one the given power.
func suffixed(text string, without int) (number string, shift int) {
	if n := len(text); n > 0 {
		if at := strings.IndexByte("KMGTP", text[n-1]); at >= 0 {
			return text[:n-1], 10 * (at + 1)
		}
	}
	return text, without
}

// decimal reads a number that is not negative times a power of ten, exactly: further decimals must be zeros.
func decimal(text string, decimals int) (int64, error) {
	whole, part, _ := strings.Cut(text, ".")
	part = strings.TrimRight(part, "0")
	if len(part) > decimals || strings.Trim(text, ".") == "" || strings.Trim(whole+part, "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseInt(whole+part+strings.Repeat("0", decimals-len(part)), 10, 64)
}
