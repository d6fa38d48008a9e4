package scenario

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var feeds = schema.GroupVersionResource{Group: "feed.example.com", Version: "v1", Resource: "feeds"}

// playFeeds has one page fetched that is there, and one that never comes, which takes the user a while to give up.
func playFeeds(ctx context.Context, u *user) error {
	if err := u.data(ctx, "weather-page", map[string]any{"text": "rain"}); err != nil {
		return err
	}
	weather, news := thing{feeds, "weather"}, thing{feeds, "news"}
	if err := u.create(ctx, weather, "Feed", map[string]any{"source": "weather-page"}); err != nil {
		return err
	}
	if err := u.await(ctx, weather, "fetched", is("Fetched", "status", "phase")); err != nil {
		return err
	}
	if err := u.create(ctx, news, "Feed", map[string]any{"source": "news-page"}); err != nil {
		return err
	}
	_, err := u.look(ctx, news, 20*time.Second, is("Fetched", "status", "phase"))
	return err
}
