package trace

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// The jobs of files whose rows show the range of a format: the report, then the
// jobs. -update writes the golden files.
func TestGolden(t *testing.T) {
	columns := func(text string) Columns {
		cs, err := ParseColumns(text)
		if err != nil {
			t.Fatal(err)
		}
		return cs
	}
	for name, c := range map[string]struct {
		file string
		opts Options
	}{
		"sacct_kinds":    {"sacct_kinds.psv", Options{Shards: 4}},
		"sacct_by_qos":   {"sacct_kinds.psv", Options{Shards: 4, Columns: columns("tenant=QOS")}},
		"sacct_recorded": {"sacct_recorded.psv", Options{RequeueRestarts: true}},
		"sacct_requeued": {"sacct_kinds.psv", Options{RequeueRestarts: true}},
		"events":         {"events.jsonl", Options{}},
		"kueue":          {"kueue.json", Options{}},
		"volcano":        {"volcano.json", Options{}},
		"foreign": {"foreign.csv", Options{Columns: columns("submit=created,start=admitted,end=finished,gpus=n_gpu,id=job," +
			"user=owner,tenant=project,name=title,status=state,memory=mem_gb:GiB,time_limit=limit_min:min")}},
		"foreign_guess":   {"foreign.csv", Options{}},
		"foreign_ms":      {"foreign_ms.tsv", Options{Columns: columns("submit=ts,duration=runtime_ms:ms,gpus=gpu/share:percent")}},
		"foreign_missing": {"foreign.csv", Options{Columns: columns("submit=creation,duration=run,gpus=n_gpu")}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			w, r, err := Open(t.Context(), filepath.Join("testdata", c.file), c.opts)
			if r != nil {
				fmt.Fprintf(&out, "%s: %d rows, %d jobs, %d of them running, %d rejected, %d left out, %d merged\n",
					r.Format, r.Rows, r.Jobs, r.Running, r.Rejected, r.LeftOut, r.Merged)
				for _, x := range r.First {
					fmt.Fprintln(&out, "rejected", x)
				}
				for _, x := range r.LeftOutReasons {
					fmt.Fprintln(&out, "left out", x.Jobs, x.Reason)
				}
			}
			if err != nil {
				fmt.Fprintln(&out, "error:", err)
			} else if err := WriteCSV(&out, w); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "golden", name+".txt")
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out.Bytes(), want) {
				t.Errorf("it is\n%s\nwant\n%s", out.Bytes(), want)
			}
		})
	}
}
