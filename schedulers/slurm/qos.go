package slurm

import (
	"math"
	"strings"

	"github.com/autosched/autosched/space"
)

// QOSPriority is the parameter of the priority of a QOS, which sacctmgr sets.
func QOSPriority(name string) string { return "QOS." + name + ".Priority" }

// QOSOf is the QOS whose priority a parameter is.
func QOSOf(id string) (name string, is bool) {
	if name, is = strings.CutPrefix(id, "QOS."); is {
		name, is = strings.CutSuffix(name, ".Priority")
	}
	strange := func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}
	return name, is && name != "" && len(id) <= 63 && strings.IndexFunc(name, strange) < 0
}

// SiteParam returns the parameter of an id that a site may add to Space or open in it, in its widest range: one of
// Domain, or the priority of one of its QOS.
func SiteParam(id string) (space.Param, bool) {
	for _, p := range Domain() {
		if p.ID == id {
			return p, true
		}
	}
	name, is := QOSOf(id)
	return space.Param{ID: id, Module: "scheduling", Kind: space.KindInt, Min: 1, Max: math.MaxInt32,
		Special: []space.Special{{Value: 0, Name: "none"}}, Default: space.Int(0),
		Description: "priority of the QOS " + name + "; only its share of the largest of all QOS matters"}, is
}
