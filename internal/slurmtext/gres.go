package slurmtext

import (
	"fmt"
	"strconv"
	"strings"
)

// A Gres is a generic resource of a node, such as gpu:a100:8(S:0-1).
type Gres struct {
	Name, Type string // the type is empty if it has none
	Count      int64
}

// maxCount bounds the units of a generic resource: some count bytes.
const maxCount = 1 << 50

// ParseGres reads the Gres and GresUsed of a node. gres_node_config_pack and gres_get_node_used in
// src/interfaces/gres.c (src/common/gres.c up to 22.05) write them; a count may have a suffix of K, M, G, T or P there,
// in powers of 1024, and sockets or indexes in parentheses behind it. (null) is none.
func ParseGres(text string) ([]Gres, error) {
	var out []Gres
	for text != "" && text != null {
		item, rest := text, ""
		for i, depth := 0, 0; i < len(text) && rest == ""; i++ {
			switch c := text[i]; {
			case c == '(':
				depth++
			case c == ')':
				depth--
			case c == ',' && depth == 0:
				item, rest = text[:i], text[i+1:]
			}
		}
		g, err := parseGres(item)
		if err != nil {
			return nil, err
		}
		out, text = append(out, g), rest
	}
	return out, nil
}

// null is Slurm's text for nothing.
const null = "(null)"

func parseGres(item string) (g Gres, err error) {
	fail := func() (Gres, error) {
		return Gres{}, fmt.Errorf("%q is not a generic resource such as gpu:8 or gpu:a100:8(S:0-1)", item)
	}
	text, list, listed := strings.Cut(strings.Replace(item, null, "", 1), "(")
	list, closed := strings.CutSuffix(list, ")")
	if listed && !closed {
		return fail()
	}
	if indexes, are := strings.CutPrefix(list, "IDX:"); are && indexes != "N/A" {
		if _, cut := parseRanges(indexes); cut {
			return fail()
		}
	}
	fields := strings.Split(strings.Replace(text, ":no_consume", "", 1), ":")
	if g.Name = fields[0]; g.Name == "" || len(fields) > 3 {
		return fail()
	}
	if len(fields) == 3 {
		g.Type = fields[1]
	}
	if g.Count = 1; len(fields) > 1 {
		number, shift := suffixed(fields[len(fields)-1], 0)
		g.Count, err = strconv.ParseInt(number, 10, 64)
		if err != nil || g.Count < 0 || g.Count > maxCount>>shift {
			return fail()
		}
		g.Count <<= shift
	}
	return g, nil
}

// NodeGPUs are the GPUs of a node.
type NodeGPUs struct {
	GPUs Share
	// Model is the type of all the GPUs; empty if they have several, none, or MIG instances.
	Model string
	// MIG are the types with a profile of MIG.
	MIG []string
	// Shards are the units of gres/shard that the GPUs are divided into.
	Shards int64
}

// ParseNodeGPUs reads the GPUs of a node from its Gres. MPS and shards are parts of GPUs that are listed besides.
func ParseNodeGPUs(text string) (n NodeGPUs, err error) {
	items, err := ParseGres(text)
	whole := false
	for _, g := range items {
		switch g.Name {
		case "shard":
			n.Shards += g.Count
		case "gpu":
			if g.Count > maxGPUs {
				return NodeGPUs{}, ErrTooWide
			}
			share, mig := gpusOf(g.Count, g.Type)
			n.GPUs = n.GPUs.Plus(share)
			switch {
			case mig:
				n.MIG = append(n.MIG, g.Type)
			case whole && g.Type != n.Model:
				n.Model = ""
			default:
				n.Model, whole = g.Type, true
			}
		}
	}
	if n.MIG != nil {
		n.Model = ""
	}
	return n, err
}

// gpuPlugin is the number of the plugin gpu, which old versions of slurmdbd write in place of its name
// (gres_build_id in src/common/gres.c).
const gpuPlugin = "7696487"

// ParseGresGPUs reads the GPUs of a job from a column of generic resources, as sacct up to 20.11 and slurmdbd have
// them: gpu:2, gpu:a100:8, gpu:1(IDX:0), 7696487:2, or the number of GPUs alone. Those requested (perNode) count for
// each of a number of nodes, but after PER_JOB.
func ParseGresGPUs(text string, perNode bool, nodes int64) (t TRES, err error) {
	if n, err := count(text, maxGPUs); err == nil {
		t.GPUs = GPUs(n)
		return t, nil
	}
	for _, prefix := range []string{"PER_NODE:", "PER_JOB:", "gres:", "gres/"} {
		if rest, cut := strings.CutPrefix(text, prefix); cut {
			perNode = perNode && prefix != "PER_JOB:"
			text = rest
		}
	}
	items, err := ParseGres(text)
	if err != nil {
		return t, err
	}
	if !perNode {
		nodes = 1
	}
	for _, g := range items {
		wide := g.Count > maxGPUs/nodes
		switch name := g.Name; {
		case wide && (name == "gpu" || name == "shard"):
			return t, ErrTooWide
		case wide:
		case name == "gpu" || name == gpuPlugin:
			share, _ := gpusOf(g.Count*nodes, g.Type)
			t.GPUs = t.GPUs.Plus(share)
			if _, _, unsure := MIGSlices(g.Type); unsure {
				t.Unsure = g.Type
			}
		case name == "mps":
			t.GPUs = t.GPUs.Plus(fraction(g.Count*nodes, 100))
		case name == "shard":
			t.Shards += g.Count * nodes
		}
	}
	if t.GPUs.parts > maxGPUs*partsPerGPU || t.Shards > maxGPUs {
		return t, ErrTooWide
	}
	return t, nil
}
