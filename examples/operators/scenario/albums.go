package scenario

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var albums = schema.GroupVersionResource{Group: "album.example.com", Version: "v1", Resource: "albums"}

// playAlbums has two albums made.
func playAlbums(ctx context.Context, u *user) error {
	for _, name := range []string{"summer", "winter"} {
		album := thing{albums, name}
		if err := u.create(ctx, album, "Album", map[string]any{"pages": 30}); err != nil {
			return err
		}
		if err := u.await(ctx, album, "made", is(int64(30), "status", "pages")); err != nil {
			return err
		}
	}
	return nil
}
