package workload

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ParseVC reads a virtual cluster as people write it: tenant=GPUs, or
// tenant=GPUs:weight.
func ParseVC(s string) (VC, error) {
	i := strings.LastIndexByte(s, '=')
	if i < 0 {
		return VC{}, fmt.Errorf("%q is not tenant=GPUs or tenant=GPUs:weight", s)
	}
	v := VC{Tenant: s[:i]}
	gpus, weight, weighted := strings.Cut(s[i+1:], ":")
	var err error
	if v.GPUs, err = strconv.Atoi(gpus); err != nil || v.GPUs < 0 || v.GPUs > MaxGPUs*1024 {
		return VC{}, fmt.Errorf("%q: %q is not a number of GPUs", s, gpus)
	}
	if weighted {
		if v.Weight, err = strconv.ParseFloat(weight, 64); err != nil || !(v.Weight > 0 && v.Weight <= 1e9) {
			return VC{}, fmt.Errorf("%q: %q is not a positive weight", s, weight)
		}
	}
	return v, nil
}

// AutoVCs divides GPUs into quotas by the tenants' shares of the jobs' GPU-time,
// in order of tenant. Each gets at least the width of its widest job, if the
// GPUs are enough for that; the rest is divided by share, whole GPUs by largest
// remainder.
func AutoVCs(jobs []Job, gpus int) []VC {
	at := map[string]int{}
	var vcs []VC
	var time []float64 // GPU-seconds
	var widest []int
	for i := range jobs {
		j := &jobs[i]
		k, ok := at[j.Tenant]
		if !ok {
			k = len(vcs)
			at[j.Tenant] = k
			vcs, time, widest = append(vcs, VC{Tenant: j.Tenant}), append(time, 0), append(widest, 0)
		}
		time[k] += j.Duration.Seconds() * j.GPUs.Count()
		widest[k] = max(widest[k], j.GPUs.Whole())
	}
	need, all := 0, 0.0
	for k := range vcs {
		need += widest[k]
		all += time[k]
	}
	order := make([]int, len(vcs))
	for k := range order {
		order[k] = k
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(vcs[a].Tenant, vcs[b].Tenant) })
	if need > gpus {
		clear(widest)
	}
	// Tenants whose share is less than their widest job get that; the others divide
	// the rest, until no other tenant falls short.
	left, short := gpus, make([]bool, len(vcs))
	for again := true; again; {
		again = false
		for _, k := range order {
			if !short[k] && float64(left)*time[k] < float64(widest[k])*all {
				short[k], again = true, true
				vcs[k].GPUs = widest[k]
				left -= widest[k]
				all -= time[k]
			}
		}
	}
	given := 0
	var rest []int
	remainder := make([]float64, len(vcs))
	for _, k := range order {
		if short[k] {
			continue
		}
		exact := float64(left) * (time[k] / all)
		vcs[k].GPUs = max(int(exact), widest[k])
		remainder[k] = exact - float64(vcs[k].GPUs)
		given += vcs[k].GPUs
		rest = append(rest, k)
	}
	slices.SortStableFunc(rest, func(a, b int) int { return cmp.Compare(remainder[b], remainder[a]) })
	for i := 0; given < left && i < len(rest); i++ {
		vcs[rest[i]].GPUs++
		given++
	}
	slices.SortFunc(vcs, func(a, b VC) int { return cmp.Compare(a.Tenant, b.Tenant) })
	return vcs
}
