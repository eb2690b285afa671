package kubejson

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

// IsGPU reports whether a resource is GPUs, as nvidia.com/gpu is.
func IsGPU(resource string) bool { return strings.HasSuffix(resource, "/gpu") }

// PodGPUs is the number of GPUs that a pod requests, or is limited to where it requests none: of its containers and
// sidecars together, or of one before them with the sidecars that began earlier, if that is more.
func PodGPUs(spec Value) int {
	of := func(container Value) int {
		for _, list := range []string{"requests", "limits"} {
			if resources := container.Get("resources", list); HasGPUs(resources) {
				return ListGPUs(resources)
			}
		}
		return 0
	}
	sidecars, first := 0, 0
	for _, c := range spec.Get("initContainers").Items() {
		n := of(c)
		first = max(first, sidecars+n)
		if c.Get("restartPolicy").Text() == "Always" {
			sidecars += n
		}
	}
	sum := sidecars
	for _, c := range spec.Get("containers").Items() {
		sum += of(c)
	}
	return max(sum, first)
}

// HasGPUs reports whether a list of resources names GPUs, ListGPUs their number.
func HasGPUs(list Value) bool {
	for _, name := range list.Keys() {
		if IsGPU(name) {
			return true
		}
	}
	return false
}

// ListGPUs is the number of GPUs in a list of resources.
func ListGPUs(list Value) int {
	sum := 0
	for _, name := range list.Keys() {
		if IsGPU(name) {
			sum += max(0, list.Get(name).Whole())
		}
	}
	return sum
}

// generated is the end of a name that differs between runs: letters that Kubernetes chooses, a hash, or a number.
var generated = regexp.MustCompile(`(-[bcdfghjklmnpqrstvwxz2456789]{5}|-[0-9a-f]{5}|-?[0-9]+)+$`)

// Key is equal for runs of one recurring job: of its owner's kind and name without the generated end.
func Key(o *Object) string {
	kind, name := o.Kind(), o.Name()
	for _, owner := range o.Get("metadata", "ownerReferences").Items() {
		if owner.Get("controller").Bool() || kind == o.Kind() {
			kind, name = owner.Get("kind").Text(), owner.Get("name").Text()
		}
	}
	sum := sha256.Sum256([]byte(kind + "\x00" + o.Namespace() + "\x00" + generated.ReplaceAllString(name, "")))
	return hex.EncodeToString(sum[:8])
}
