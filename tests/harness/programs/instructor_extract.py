"""instructor: an extraction for each line of the prompt."""

import sys

import instructor
from openai import OpenAI
from pydantic import BaseModel


class Person(BaseModel):
    name: str
    age: int


_, base_url, prompt = sys.argv[1:]
client = instructor.from_openai(OpenAI(base_url=base_url, api_key="none"))
for said in prompt.splitlines():
    found = client.chat.completions.create(
        model="scripted", response_model=Person, messages=[{"role": "user", "content": said}]
    )
    print(f"{found.name} is {found.age}")
