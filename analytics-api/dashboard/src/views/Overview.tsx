import type { Chosen } from '../panels/chosen';
import { Live } from '../panels/Live';
import { Refusals, Top } from '../panels/lists';
import { OverTime } from '../panels/OverTime';
import { Totals } from '../panels/Totals';

export function Overview({ chosen }: { chosen: Chosen }) {
  return (
    <>
      <Totals chosen={chosen} />
      <OverTime chosen={chosen} />
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
