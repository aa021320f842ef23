// The time series: stacked by purpose where receipts are counted; one layer where distinct clients
// or content are, as those don't add up.

import { useMemo, useState } from 'preact/hooks';
import type { Timeseries } from '../api/answers';
import { address } from '../api/questions';
import type { Asked } from '../ask';
import { SeriesChart, when } from '../chart/SeriesChart';
import { columnsOf, endOf, seriesOf } from '../chart/stack';
import { count, named, words } from '../format';
import { go, METRICS, type Metric, zoomTo } from '../location';
import { completeness } from '../watermark';
import type { Chosen } from './chosen';
import type { Numbers, seriesQuery } from './numbers';
import { Panel } from './Panel';

interface Props {
  asked: Asked<Numbers<unknown>>;
  query: ReturnType<typeof seriesQuery>;
  chosen: Chosen;
}

export function OverTime({ asked, query, chosen }: Props) {
  const { location } = chosen;
  const [asTable, setAsTable] = useState(false);
  const noun = named(location.metric);
  const actions = (
    <>
      <label class="pick">
        <span class="unseen">What is counted over time</span>
        <select value={location.metric} onChange={(event) => go({ metric: event.currentTarget.value as Metric })}>
          {METRICS.map((metric) => (
            <option key={metric} value={metric}>
              {words(named(metric))}
            </option>
          ))}
        </select>
      </label>
      <button type="button" class="quiet" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>
        Table
      </button>
    </>
  );
  return (
    <Panel
      id="over-time"
      title="Over time"
      help="By the time at which the content was accessed."
      asked={asked}
      rows={1}
      csv={() => address('/timeseries', query)}
      actions={actions}
    >
      {(data) => <Shown data={data.series} chosen={chosen} noun={noun} asTable={asTable} />}
    </Panel>
  );
}

function Shown({ data, chosen, noun, asTable }: { data: Timeseries; chosen: Chosen; noun: string; asTable: boolean }) {
  const series = useMemo(() => seriesOf(data), [data]);
  const complete = completeness.value;
  const interval = chosen.interval;
  // A bucket of the finest interval has nothing finer in it.
  const zoomable = interval !== 'minute' || series.starts.length > 2;
  if (asTable) {
    const columns = columnsOf(series);
    return (
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
      <section class="scroll" aria-label="Over time, as a table" tabIndex={0}>
        <table class="points">
          <thead>
            <tr>
              <th scope="col">{words(interval)}</th>
              {columns.map(({ key }) => (
                <th key={key} scope="col" class="number">
                  {words(named(key))}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {series.starts.map((start, at) => (
              <tr key={start}>
                <th scope="row">{when(start, endOf(series, at), interval, chosen.location.tz)}</th>
                {columns.map(({ key, values }) => (
                  <td key={key} class="number">
                    {count(values[at] ?? 0)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    );
  }
  return (
    <SeriesChart
      series={series}
      interval={interval}
      tz={chosen.location.tz}
      completeMs={complete.state === 'unknown' ? null : complete.throughMs}
      noun={noun}
      onZoom={zoomable ? zoomTo : null}
    />
  );
}
