package causal_test

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/autosched/autosched/causal"
)

// Learn a graph from a table: the quantum affects preemptions, which affect the JCT.
func ExampleLearn() {
	r := rand.New(rand.NewPCG(1, 2))
	var csv strings.Builder
	csv.WriteString("quantum,preemptions,jct\n")
	for range 500 {
		quantum := float64(1 + r.IntN(10))
		preemptions := 20/quantum + r.NormFloat64()
		fmt.Fprintf(&csv, "%v,%v,%v\n", quantum, preemptions, 100+5*preemptions+4*r.NormFloat64())
	}
	table, err := causal.ReadCSV(strings.NewReader(csv.String()), nil)
	if err != nil {
		log.Fatal(err)
	}
	spec := &causal.Spec{Tiers: map[string]string{"quantum": causal.TierConfig, "preemptions": causal.TierMetric,
		"jct": causal.TierObjective}}
	graph, err := causal.Learn(context.Background(), table, spec, causal.LearnOptions{Bootstrap: 20})
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range graph.Edges {
		fmt.Printf("%s %s %s, in %g of the bootstrap samples\n",
			e.Source, causal.Arrows(e.MarkSource, e.MarkTarget), e.Target, *e.BootFreq)
	}
	fmt.Println("order:", graph.DAG.Order)
	// Output:
	// quantum --> preemptions, in 1 of the bootstrap samples
	// preemptions --> jct, in 1 of the bootstrap samples
	// order: [quantum preemptions jct]
}

// collider is the oracle of a -> b <- h -> c with h hidden: a and c are independent
// unless b is given; all other pairs are dependent.
type collider struct{}

func (collider) Worker() func(x, y int, given []int) causal.Outcome {
	return func(x, y int, given []int) causal.Outcome {
		if x == 0 && y == 2 && !slices.Contains(given, 1) {
			return causal.Outcome{P: 1}
		}
		return causal.Outcome{Strength: 1}
	}
}

// Discover with an oracle: b does not cause a or c.
func ExampleDiscover() {
	r, err := causal.Discover(context.Background(), 3, nil, collider{}, causal.SearchOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(r.Graph.Format([]string{"a", "b", "c"}))
	// Output:
	// a o-> b
	// b <-o c
}
