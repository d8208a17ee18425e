package measure

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// scrape reads the metrics of a server: each with its labels, as they are written.
func scrape(ctx context.Context, ops string) (map[string]float64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, ops+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Timeout: 30 * time.Second}
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read the metrics of the server: %s", answer.Status)
	}
	return parseMetrics(answer.Body)
}

func parseMetrics(text io.Reader) (map[string]float64, error) {
	out := map[string]float64{}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		line := lines.Text()
		space := strings.LastIndexByte(line, ' ')
		if space < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		v, err := strconv.ParseFloat(line[space+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("read the metrics of the server: %w", err)
		}
		out[line[:space]] = v
	}
	return out, lines.Err()
}
