package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRecommend: jobs of a key that crash are advised to be held, and that is simulated; where
// none crash, nothing is advised.
func TestRecommend(t *testing.T) {
	const head = "job_id,submit_time,duration_s,gpus,user,key,status,wait_s\n"
	at := func(s int) string { return time.Unix(1_700_000_000+int64(s), 0).UTC().Format(time.RFC3339) }
	var jobs, crashes strings.Builder
	for i := range 200 {
		fmt.Fprintf(&jobs, "a%d,%s,9000,4,u%d,k%d,completed,0\n", i, at(600*i), i%5, i%7)
	}
	for k := range 12 {
		fmt.Fprintf(&crashes, "c%d,%s,180,4,bad,train,failed,0\n", k, at(20000+360*k))
	}
	for _, x := range []struct{ name, rows, want string }{
		{"healthy", head + jobs.String(), "none holds"},
		{"crashing", head + jobs.String() + crashes.String(), "Simulated under fifo over"},
	} {
		path := filepath.Join(t.TempDir(), x.name+".csv")
		if err := os.WriteFile(path, []byte(x.rows), 0o666); err != nil {
			t.Fatal(err)
		}
		code, out, errs := command("recommend", "--trace", path, "--nodes", "8", "--gpus-per-node", "8", "--rule",
			"crash_loop")
		if code != 0 || !strings.Contains(out, x.want) {
			t.Errorf("%s: exit %d\n%s%s", x.name, code, out, errs)
		}
	}
}
