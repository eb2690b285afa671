package workload_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/autosched/autosched/workload"
)

// FuzzCluster: a stored cluster that is read and valid is stored the same.
func FuzzCluster(f *testing.F) {
	for _, c := range []workload.Cluster{workload.Uniform(4, 8), {}} {
		text, err := json.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"nodes":4,"gpus_per_node":8}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var c, again workload.Cluster
		if json.Unmarshal(text, &c) != nil || c.Validate() != nil {
			return
		}
		stored, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(stored, &again); err != nil || again.Validate() != nil {
			t.Fatalf("%s does not read back: %v", stored, err)
		}
		if twice, _ := json.Marshal(again); string(twice) != string(stored) {
			t.Fatalf("%s reads back as %s", stored, twice)
		}
	})
}

// FuzzVC: a quota that is read is written as one that reads the same.
func FuzzVC(f *testing.F) {
	f.Add("a=b=4:2.5")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := workload.ParseVC(text)
		if err != nil {
			return
		}
		back := fmt.Sprintf("%s=%d", v.Tenant, v.GPUs)
		if v.Weight > 0 {
			back = fmt.Sprintf("%s:%v", back, v.Weight)
		}
		if again, err := workload.ParseVC(back); err != nil || again != v {
			t.Fatalf("%q reads back as %+v, %v", back, again, err)
		}
	})
}
