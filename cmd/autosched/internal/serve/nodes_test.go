package serve

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service/nodetest"
	"github.com/autosched/autosched/space"
)

// Variables that make the test binary a node: where its data are, its address, the files of its access and of its
// clock, and of its cluster, empty for a service of one process.
const (
	nodeDir     = "AUTOSCHED_NODE_TEST_DIR"
	nodeHost    = "AUTOSCHED_NODE_TEST_HOST"
	nodePKI     = "AUTOSCHED_NODE_TEST_PKI"
	nodeClock   = "AUTOSCHED_NODE_TEST_CLOCK"
	nodeCluster = "AUTOSCHED_NODE_TEST_CLUSTER"
)

// serveNode serves with rounds that decide at once and a clock that the test sets.
func serveNode(dir string) {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	var offset atomic.Int64
	go func() {
		for ; ; time.Sleep(50 * time.Millisecond) {
			d, err := nodetest.ClockOffset(os.Getenv(nodeClock))
			if err != nil {
				log.Error(err.Error())
				continue
			}
			offset.Store(int64(d))
		}
	}()
	pki := func(name string) string { return filepath.Join(os.Getenv(nodePKI), name) }
	_, o := serveCommand()
	o.cluster = os.Getenv(nodeCluster)
	if o.cluster != "" {
		dir = filepath.Join(dir, "local")
	}
	o.dir, o.listen = dir, os.Getenv(nodeHost)+":7443"
	o.operations = os.Getenv(nodeHost) + ":9443"
	o.access.Files.Cert, o.access.Files.Key = pki("server.pem"), pki("server.key")
	o.access.Files.ClientCA, o.access.Files.Roles = pki("ca.pem"), pki("roles.yaml")
	o.workers, o.drain, o.log = 1, time.Second, cli.LogFlags{}
	o.limits.Events, o.limits.EventsPerCaller = 0, 0
	o.limits.Requests, o.limits.Acknowledgements = 0, 0
	o.decide = func(_ context.Context, in round.Input) (round.Decision, error) {
		return round.Decision{Config: in.Incumbent.With("starve_limit", space.Num(float64(300+in.Round%9000))),
			Adopt: true, Ratio: 1.5, Reason: "test"}, nil
	}
	o.now = func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
	if err := o.run(context.Background(), log); err != nil {
		log.Error(err.Error())
		os.Exit(1)
	}
}
