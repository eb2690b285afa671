package causal_test

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"strings"

	"github.com/autosched/autosched/causal"
)

// Learn a graph from a table: the quantum moves the preemptions, they the JCT.
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
	spec := &causal.Spec{Tiers: map[string]string{"quantum": causal.TierConfig, "preemptions": causal.TierMetric, "jct": causal.TierObjective}}
	graph, err := causal.Learn(context.Background(), table, spec, causal.LearnOptions{Bootstrap: 20})
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range graph.Edges {
		fmt.Printf("%s %s %s, in %g of the bootstrap samples\n", e.Source, causal.Arrows(e.MarkSource, e.MarkTarget), e.Target, *e.BootFreq)
	}
	fmt.Println("order:", graph.DAG.Order)
	// Output:
	// quantum --> preemptions, in 1 of the bootstrap samples
	// preemptions --> jct, in 1 of the bootstrap samples
	// order: [quantum preemptions jct]
}

// What can be known with perfect answers: variable 3 is a hidden cause of 1 and 2.
func ExampleDiscover() {
	oracle, err := causal.NewOracle([][]int{{}, {0, 3}, {3}, {}})
	if err != nil {
		log.Fatal(err)
	}
	r, err := causal.Discover(context.Background(), 3, nil, oracle, causal.SearchOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(r.Graph.Format([]string{"a", "b", "c"}))
	// Output:
	// a o-> b
	// b <-o c
}
