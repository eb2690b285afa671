package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/autosched/autosched/adapter/kubernetes/cluster"
)

// has is an error if the schema of a kind lacks a field.
func has(ctx context.Context, api *cluster.API, f Field, kind string) error {
	if f.Resource.Group == "" {
		return nil // fields of the core group stay
	}
	type node = map[string]any
	var doc struct {
		Components struct {
			Schemas map[string]node
		}
	}
	if err := api.Read(ctx, "/openapi/v3/apis/"+f.Resource.Group+"/"+f.Resource.Version, &doc); err != nil {
		return err
	}
	for name, schema := range doc.Components.Schemas {
		of, _ := schema["x-kubernetes-group-version-kind"].([]any)
		if !slices.ContainsFunc(of, func(k any) bool {
			k1, _ := k.(node)
			return k1["kind"] == kind && k1["group"] == f.Resource.Group && k1["version"] == f.Resource.Version
		}) {
			continue
		}
		for _, t := range tokens(f.Path) {
			properties, _ := schema["properties"].(node)
			next, is := properties[t].(node)
			if !is && isIndex(t) {
				next, is = schema["items"].(node)
			}
			if !is {
				next, is = schema["additionalProperties"].(node)
			}
			if !is {
				return fmt.Errorf("the API server has no such field: %s of %s lacks %s", f.Resource.Version, name, t)
			}
			schema = next
		}
		return nil
	}
	return errors.New("the API server has no schema of " + kind)
}
