import type { Chosen } from '../panels/chosen';
import { Live } from '../panels/Live';
import { Models, Refusals, TopClients, TopContent } from '../panels/lists';
import { OverTime } from '../panels/OverTime';
import { Totals } from '../panels/Totals';

export function Overview({ chosen }: { chosen: Chosen }) {
  return (
    <>
      <Totals chosen={chosen} />
      <OverTime chosen={chosen} />
      <div class="columns">
        <TopContent chosen={chosen} />
        <Live tz={chosen.location.tz} domain={chosen.location.domain} />
        <TopClients chosen={chosen} />
        <Models chosen={chosen} />
        <Refusals chosen={chosen} />
      </div>
    </>
  );
}
