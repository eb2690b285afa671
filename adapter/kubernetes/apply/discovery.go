package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// discovery asks the API server for its versions and schemas.
type discovery struct {
	client *http.Client
	base   string
}

func newDiscovery(c *rest.Config) (*discovery, error) {
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, err
	}
	url, _, err := rest.DefaultServerUrlFor(c)
	if err != nil {
		return nil, err
	}
	return &discovery{client, strings.TrimSuffix(url.String(), "/")}, nil
}

// maxDocument is how long an answer may be, in bytes: the schemas of Kueue's group are 2 MB.
const maxDocument = 32 << 20

func (d *discovery) read(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.base+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	answer, err := d.client.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, answer.Status)
	}
	return json.NewDecoder(io.LimitReader(answer.Body, maxDocument)).Decode(into)
}

// version is the preferred version of a resource's group; of the core group it is v1.
func (d *discovery) version(ctx context.Context, r schema.GroupResource) (string, error) {
	if r.Group == "" {
		return "v1", nil
	}
	var group struct {
		PreferredVersion struct {
			Version string
		}
	}
	if err := d.read(ctx, "/apis/"+r.Group, &group); err != nil {
		return "", fmt.Errorf("%v is not served: %w", r, err)
	}
	return group.PreferredVersion.Version, nil
}

// has is an error if the schema of a kind lacks a field.
func (d *discovery) has(ctx context.Context, f Field, kind string) error {
	if f.Resource.Group == "" {
		return nil // fields of the core group stay
	}
	type node = map[string]any
	var doc struct {
		Components struct {
			Schemas map[string]node
		}
	}
	if err := d.read(ctx, "/openapi/v3/apis/"+f.Resource.Group+"/"+f.Resource.Version, &doc); err != nil {
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
