// Range, interval, time zone, filters.

import { useState } from 'preact/hooks';
import { serverNow } from '../clock';
import { offsetName, words } from '../format';
import { go, type PageLocation, pageLocation, zoomOut } from '../location';
import { addDays, dayOf, INTERVALS, type Interval, intervalsFor, PRESET_NAMES, PRESETS, type Range } from '../ranges';
import { allZones, isZone, ownZone } from '../zones';
import type { Chosen } from './chosen';

export function Controls({ chosen }: { chosen: Chosen }) {
  const { range, interval } = chosen.location;
  const preset = 'preset' in range ? range.preset : null;
  const [open, setOpen] = useState(false);
  const custom = preset === null || open;
  const fitting = intervalsFor(chosen.range.lengthMs);
  return (
    <section class="controls" aria-label="Selection">
      <fieldset class="ranges">
        <legend class="unseen">Range</legend>
        {PRESETS.map((one) => (
          <label key={one} class="choice">
            <input
              type="radio"
              name="range"
              checked={preset === one && !open}
              onChange={() => {
                setOpen(false);
                go({ range: { preset: one }, interval: 'auto' });
              }}
            />
            <span>
              <span class="long">{PRESET_NAMES[one][0]}</span>
              <span class="short">{PRESET_NAMES[one][1]}</span>
            </span>
          </label>
        ))}
        <label class="choice">
          <input type="radio" name="range" checked={custom} onChange={() => setOpen(true)} />
          <span>Custom</span>
        </label>
      </fieldset>
      <label class="pick">
        <span>Interval</span>
        <select
          value={interval !== 'auto' && fitting.includes(interval) ? interval : 'auto'}
          onChange={(event) => go({ interval: event.currentTarget.value as Interval | 'auto' })}
        >
          <option value="auto">Auto ({chosen.interval})</option>
          {INTERVALS.map((one) => (
            <option key={one} value={one} disabled={!fitting.includes(one)}>
              {words(one)}
            </option>
          ))}
        </select>
      </label>
      <Zone />
      {custom && <Days key={JSON.stringify(range)} chosen={chosen} onDone={() => setOpen(false)} />}
      <Filters />
    </section>
  );
}

function Days({ chosen, onDone }: { chosen: Chosen; onDone: () => void }) {
  const { range, tz } = chosen.location;
  const today = dayOf(serverNow(), tz);
  const first = firstAndLast(range, tz, today);
  const [fromDay, setFrom] = useState(first.fromDay);
  const [toDay, setTo] = useState(first.toDay);
  const backward = fromDay > toDay;
  return (
    <form
      class="days"
      onSubmit={(event) => {
        event.preventDefault();
        if (backward || !fromDay || !toDay) return;
        onDone();
        go({ range: { fromDay, toDay }, interval: 'auto' });
      }}
    >
      <label class="pick">
        <span>From</span>
        <input
          type="date"
          required
          min="1970-01-01"
          max="2199-12-31"
          value={fromDay}
          onInput={(event) => setFrom(event.currentTarget.value)}
        />
      </label>
      <label class="pick">
        <span>To, included</span>
        <input
          type="date"
          required
          min="1970-01-01"
          max="2199-12-31"
          value={toDay}
          aria-invalid={backward}
          aria-describedby={backward ? 'backward' : undefined}
          onInput={(event) => setTo(event.currentTarget.value)}
        />
      </label>
      <button type="submit" disabled={backward}>
        Show
      </button>
      {backward && (
        <span id="backward" class="fault" role="alert">
          The first day is after the last.
        </span>
      )}
    </form>
  );
}

function firstAndLast(range: Range, tz: string, today: string): { fromDay: string; toDay: string } {
  if ('fromDay' in range) return range;
  if ('fromMs' in range) return { fromDay: dayOf(range.fromMs, tz), toDay: dayOf(range.toMs - 1, tz) };
  return { fromDay: addDays(today, -6), toDay: today };
}

/**
 * A field with suggestions rather than a list of 400: typing finds a zone, by keyboard and on a
 * phone too.
 */
function Zone() {
  const tz = pageLocation.value.tz;
  const [text, setText] = useState<string | null>(null);
  const [refused, setRefused] = useState('');
  const wrong = text !== null && text !== '' && !isZone(text);
  const take = (name: string) => {
    const found = ZONES.find((zone) => zone.toLowerCase() === name.trim().toLowerCase().replaceAll(' ', '_'));
    if (found) {
      setText(null);
      setRefused('');
      if (found !== pageLocation.peek().tz) go({ tz: found });
    }
    return found !== undefined;
  };
  return (
    <>
      <label class="pick zone">
        <span>
          Time zone <small>{offsetName(serverNow(), tz)}</small>
        </span>
        <input
          list="zones"
          value={text ?? tz}
          maxLength={64}
          spellcheck={false}
          autocomplete="off"
          autocapitalize="off"
          aria-invalid={wrong}
          aria-describedby={refused ? 'zone-refused' : undefined}
          onFocus={(event) => event.currentTarget.select()}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setRefused('');
            // A suggestion that was picked comes whole; a name still being typed may be whole by
            // chance and is taken when left.
            if ((event as unknown as InputEvent).inputType === 'insertReplacementText') take(event.currentTarget.value);
          }}
          onChange={(event) => {
            const given = event.currentTarget.value;
            if (take(given)) return;
            setText(null);
            setRefused(given.trim());
          }}
          onKeyDown={(event) => {
            if (event.key === 'Enter') take(event.currentTarget.value);
            if (event.key === 'Escape') setText(null);
          }}
        />
        <datalist id="zones">
          {[ownZone(), ...ZONES].map((zone, at) => (
            <option key={at} value={zone} />
          ))}
        </datalist>
      </label>
      {refused && (
        <span id="zone-refused" class="fault" role="alert">
          “{refused}” is no time zone; it stays {tz}.
        </span>
      )}
    </>
  );
}

const ZONES = allZones();

const FILTERS: {
  name: keyof PageLocation & ('purpose' | 'modelId' | 'trust' | 'operator' | 'domain');
  label: string;
}[] = [
  { name: 'purpose', label: 'Purpose' },
  { name: 'modelId', label: 'Model' },
  { name: 'trust', label: 'Only' },
  { name: 'operator', label: 'Operator' },
  { name: 'domain', label: 'Domain' },
];

function Filters() {
  const active = FILTERS.filter(({ name }) => pageLocation.value[name] !== null);
  const { range } = pageLocation.value;
  const zoomed = 'fromMs' in range;
  if (active.length === 0 && !zoomed) return null;
  return (
    <ul class="filters" aria-label="Filters">
      {zoomed && (
        <li>
          <button type="button" onClick={zoomOut}>
            Zoom out <span aria-hidden="true">↩</span>
          </button>
        </li>
      )}
      {active.map(({ name, label }) => (
        <li key={name}>
          <button
            type="button"
            onClick={() => go({ [name]: null })}
            aria-label={`Remove filter: ${label} ${pageLocation.value[name]}`}
          >
            {label} <b>{pageLocation.value[name]}</b> <span aria-hidden="true">×</span>
          </button>
        </li>
      ))}
    </ul>
  );
}
