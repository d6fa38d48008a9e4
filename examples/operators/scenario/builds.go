package scenario

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var builds = schema.GroupVersionResource{Group: "ci.example.com", Version: "v1", Resource: "builds"}

// playBuilds has two images built.
func playBuilds(ctx context.Context, u *user) error {
	for _, name := range []string{"shop", "blog"} {
		build := thing{builds, name}
		if err := u.create(ctx, build, "Build", map[string]any{"image": name + ":1"}); err != nil {
			return err
		}
		if err := u.await(ctx, build, "being built", has("status", "job")); err != nil {
			return err
		}
	}
	return nil
}
