package simulator

import "testing"

// TestModelsDigest: any difference of the models changes the digest, and
// equal models have equal ones, whatever their source.
func TestModelsDigest(t *testing.T) {
	const gpus = 16
	seen := map[string]string{(*Models)(nil).Digest(gpus): "the defaults"}
	for range 2 {
		if got := DefaultModels().Digest(gpus); seen[got] == "" {
			t.Errorf("the defaults made again have digest %s", got)
		}
		if got := DefaultModelSpec().Models().Digest(gpus); seen[got] == "" {
			t.Errorf("the defaults as tables have digest %s", got)
		}
	}
	for name, change := range map[string]func(*ModelSpec){
		"restart": func(f *ModelSpec) { f.Restart.Steps[2].Seconds++ },
		"restart by state": func(f *ModelSpec) {
			f.Restart.State = &RestartState{Seconds: 18, PerGB: 1e-3, Share: .1}
		},
		"proportional": func(f *ModelSpec) { f.Restart.Proportional = false },
		"class":        func(f *ModelSpec) { f.Classes.List[1].Name = "other" },
		"slowdown":     func(f *ModelSpec) { f.Classes.List[0].Slowdown += 1e-9 },
		"interconnect": func(f *ModelSpec) { f.Classes.Interconnect = "nvlink" },
		"weight":       func(f *ModelSpec) { f.Classes.List[0].Weight++ },
		"curve":        func(f *ModelSpec) { f.Scaling.Curves[1].Speed[1] *= 1.01 },
		"which curve":  func(f *ModelSpec) { f.Classes.List[0].Scaling = "scales_well" },
		"load":         func(f *ModelSpec) { f.Pairs.Loads[3].Mem++ },
		"pair":         func(f *ModelSpec) { f.Pairs.Speeds[2][0] += 1e-9 },
		"no pairs":     func(f *ModelSpec) { f.Pairs.Speeds = nil },
	} {
		f := DefaultModelSpec()
		change(f)
		got := f.Models().Digest(gpus)
		if other := seen[got]; other != "" {
			t.Errorf("%s: the digest is that of %s", name, other)
		}
		seen[got] = name
	}
	if a, b := DefaultModels().Digest(8), DefaultModels().Digest(9); a == b {
		t.Error("one digest for clusters of 8 and 9 GPUs")
	}
}
