// The console: what a publisher's people set up and look after. Loaded on demand.

import { consolePath } from '../location';
import { person } from '../session';
import { Frame } from './Frame';
import { VIEWS, viewAt } from './views';
import './console.css';

export function Console() {
  const found = viewAt(consolePath.value);
  const isPerson = person.value !== null;
  return (
    <Frame
      views={isPerson ? VIEWS : []}
      current={found}
      title={isPerson ? (found?.title ?? 'There is no such page') : 'Settings'}
    >
      {!isPerson ? <WithKey /> : found ? <found.View /> : <p class="empty">Choose another one from the list.</p>}
    </Frame>
  );
}

function WithKey() {
  return (
    <p class="empty">
      You see the numbers by an API key. Settings are for people: sign out, then sign in with your account, or by a link
      from whoever runs this service.
    </p>
  );
}
