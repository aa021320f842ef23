import { explain } from '../api/problem';
import { dashboard } from '../api/questions';
import type { Chosen } from '../panels/chosen';
import { Live } from '../panels/Live';
import { Refusals, Top } from '../panels/lists';
import { seriesQuery, useNumbers } from '../panels/numbers';
import { OverTime } from '../panels/OverTime';
import { Totals } from '../panels/Totals';

export function Overview({ chosen }: { chosen: Chosen }) {
  // What it is compared with has the same length, so it needs both ends.
  const query = { ...chosen.query, to: chosen.range.to, compare: chosen.location.compare, limit: 0 };
  const series = seriesQuery(chosen, {});
  const asked = useNumbers(query, series, (signal) => dashboard(query, signal));
  if (asked.problem?.code === 'no_verified_domain') {
    const { title, advice } = explain(asked.problem);
    return (
      <div class="title">
        <h2>{title}</h2>
        <p>{advice}</p>
      </div>
    );
  }
  return (
    <>
      <Totals asked={asked} tz={chosen.location.tz} />
      <OverTime asked={asked} query={series} chosen={chosen} />
      <div class="columns">
        <Top list="content" title="Top content" chosen={chosen} />
        <Live tz={chosen.location.tz} domain={chosen.location.domain} />
        <Top list="services" title="Top AI services" chosen={chosen} />
        <Top list="models" title="Top models" chosen={chosen} />
        <Refusals chosen={chosen} />
      </div>
    </>
  );
}
