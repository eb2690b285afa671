package apply

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/autosched/autosched/adapter/kubernetes/cluster"
)

// shown are the metrics by which a scheduler shows a field: of Kueue, where its manager runs with
// metrics.enableClusterQueueResources, and of Volcano.
var shown = map[string]struct{ metric, label string }{
	"borrowingLimit": {"kueue_cluster_queue_borrowing_limit", "cluster_queue"},
	"lendingLimit":   {"kueue_cluster_queue_lending_limit", "cluster_queue"},
	"spec.weight":    {"volcano_queue_weight", "queue_name"},
}

// Metrics returns the Evidence of Options by a scheduler's metrics in Prometheus' text format.
func Metrics(read func(context.Context) ([]byte, error)) func(context.Context, Field, any) (bool, error) {
	return func(ctx context.Context, f Field, value any) (has bool, err error) {
		path := dotted(f.Path)
		if isListed(f.Path) {
			path = path[strings.LastIndex(path, ".")+1:]
		}
		by, is := shown[path]
		if !is {
			return false, nil
		}
		want := math.Inf(1) // no limit
		if value != nil {
			if want, err = strconv.ParseFloat(text(value), 64); err != nil {
				return false, nil // 1k, say
			}
		}
		all, err := read(ctx)
		if err != nil {
			return false, fmt.Errorf("metrics: %w", err)
		}
		for line := range strings.Lines(string(all)) {
			labels, is := strings.CutPrefix(line, by.metric+"{")
			if !is || !strings.Contains(","+labels, fmt.Sprintf(",%s=%q", by.label, f.Name)) ||
				isListed(f.Path) && !strings.Contains(labels, fmt.Sprintf("resource=%q", cluster.GPU)) {
				continue
			}
			_, number, _ := strings.Cut(labels, "} ")
			number, _, _ = strings.Cut(strings.TrimSpace(number), " ") // a time may follow
			v, err := strconv.ParseFloat(number, 64)
			if err != nil {
				return false, fmt.Errorf("metrics: %w", err)
			}
			return v == want, nil
		}
		return false, nil
	}
}
