// Mails about the account's numbers, as the person chooses them for themselves.

import { useState } from 'preact/hooks';
import { refresh, useAsk } from '../ask';
import { Panel } from '../panels/Panel';
import { useAction } from './Action';
import { ActionForm } from './ActionForm';
import type { ChosenReports, ReportChoice } from './answers';
import { get, send } from './api';

const PATH = '/api/v1/user/reports';

export function Mails() {
  const [isSaved, setSaved] = useState(false);
  const asked = useAsk('reports', (signal) => get<ChosenReports>(PATH, signal));
  return (
    <>
      <p class="lede">The numbers of this account by mail, for you alone. Your colleagues choose their own.</p>
      <Panel id="mails" title="Mails to you" asked={asked} rows={5}>
        {({ email, mailConfigured, ...chosen }) => (
          <>
            <p class="soft">
              {email ? `They go to ${email}.` : 'You have no e-mail address here: mails wait for one.'}
            </p>
            {!mailConfigured && (
              <p class="note">This service can’t send mails yet. You can choose them: alerts wait for a week.</p>
            )}
            <Choice key={JSON.stringify(chosen)} of={chosen} onSaved={setSaved} />
            <p class="note" role="status">
              {isSaved && 'Saved.'}
            </p>
          </>
        )}
      </Panel>
    </>
  );
}

function Choice({ of, onSaved }: { of: ReportChoice; onSaved: (isSaved: boolean) => void }) {
  const [chosen, setChosen] = useState(of);
  const action = useAction(async () => {
    await send('PUT', PATH, chosen);
    onSaved(true);
    refresh();
  });
  const change = (part: Partial<ReportChoice>) => {
    onSaved(false);
    setChosen({ ...chosen, ...part });
  };
  return (
    <ActionForm action={action} submit="Save">
      <fieldset>
        <legend>Numbers</legend>
        <Tick
          text="Every week"
          help="Uses, AI services and new companies of Monday to Sunday, once all are counted."
          value={chosen.weekly}
          onChange={(weekly) => change({ weekly })}
        />
        <Tick
          text="Every month"
          help="The same of a month."
          value={chosen.monthly}
          onChange={(monthly) => change({ monthly })}
        />
      </fieldset>
      <fieldset>
        <legend>Alerts</legend>
        <Tick
          text="A new company uses your content"
          help="One that has proven its domain, and wasn’t seen for 90 days."
          value={chosen.newOperator}
          onChange={(newOperator) => change({ newOperator })}
        />
        <Limit
          text="Many uses are unproven"
          help="When a day’s part rises above the limit. A day needs 100 uses."
          label="More than, in percent"
          first={30}
          max={99}
          value={chosen.unprovenPercent}
          onChange={(unprovenPercent) => change({ unprovenPercent })}
        />
        <Limit
          text="No uses"
          help="When none came for so long, after some in the 30 days before."
          label="For, in hours"
          first={24}
          max={720}
          value={chosen.silentHours}
          onChange={(silentHours) => change({ silentHours })}
        />
      </fieldset>
    </ActionForm>
  );
}

interface TickProps {
  text: string;
  help: string;
  value: boolean;
  onChange: (value: boolean) => void;
}

function Tick({ text, help, value, onChange }: TickProps) {
  return (
    <label class="tick">
      <input type="checkbox" checked={value} onChange={(event) => onChange(event.currentTarget.checked)} />
      <span>
        {text}
        <small>{help}</small>
      </span>
    </label>
  );
}

interface LimitProps extends Pick<TickProps, 'text' | 'help'> {
  label: string;
  /** What it is when it is switched on. */
  first: number;
  max: number;
  value: number | null;
  onChange: (value: number | null) => void;
}

/** An alert with a limit; none is off. */
function Limit({ text, help, label, first, max, value, onChange }: LimitProps) {
  const isOn = value !== null;
  return (
    <>
      <Tick text={text} help={help} value={isOn} onChange={(wanted) => onChange(wanted ? first : null)} />
      {isOn && (
        <label class="pick limit">
          <span>{label}</span>
          <input
            type="number"
            required
            min={1}
            max={max}
            value={Number.isNaN(value) ? '' : value}
            onInput={(event) => onChange(event.currentTarget.valueAsNumber)}
          />
        </label>
      )}
    </>
  );
}
